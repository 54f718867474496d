#include "checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/formats/formats.hpp"
#include "data/formats/huggingface/companions.hpp"
#include "data/formats/huggingface/huggingface.hpp"
#include "data/formats/safetensors.hpp"
#include "data/host/machine.hpp"
#include "data/host/version.hpp"
#include "data/options/settings_file.hpp"
#include "data/strings/errors.hpp"
#include "data/strings/format.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/chat_template.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/parallel.hpp"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string kVersion = "4";
constexpr const char* kForeign = " is not a checkpoint of train_gpt";
constexpr size_t kDataAlignment = 64;  // bytes

// Every file begins with its length and this text. The checksum counts its own digits as zeros.
constexpr std::string_view kOpening = "{\"__metadata__\":{\"checksum\":\"", kNoSum = "0000000000000000";
constexpr size_t kSumAt = sizeof(uint64_t) + kOpening.size();

// How the numbers of a tensor are stored.
struct StoredNumbers {
  NumberType numbers;
  TensorType type;
  const FloatType& written;
};
const StoredNumbers kStoredNumbers[] = {{NumberType::fp32, TensorType::f32, kFloat32},
                                        {NumberType::bf16, TensorType::bf16, kBfloat16},
                                        {NumberType::fp16, TensorType::f16, kFloat16}};

const char* stored_type(NumberType numbers) {
  return std::ranges::find(kStoredNumbers, numbers, &StoredNumbers::numbers)->written.stored;
}

// ---- reading ---------------------------------------------------------------------------------------------

// Requires that the file's weights are exactly the table's tensors. Each may have a tensor for each slot of an
// optimizer.
std::vector<StoredSlice> slices_of(const StoredTensors& stored, const std::vector<TensorSpec>& table,
                                   Optimizers optimizers) {
  std::unordered_map<std::string, std::pair<std::string, TensorSpec>> expected;  // kind of tensor, tensor
  for (const TensorSpec& spec : table) expected[spec.name] = {"", spec};
  for (const Optimizer* row : optimizers)
    for (TensorSpec spec : table) {
      if (!row->takes(spec)) continue;
      spec.optimizer = row;
      const std::vector<TensorSpec> state = state_table(spec);
      for (size_t slot = 0; slot < state.size(); ++slot)
        expected[stored_name(state[slot].name)] = {row->slots[slot].name, state[slot]};
    }
  std::vector<StoredSlice> slices;
  std::map<std::string, size_t> found;  // number of tensors of each kind
  for (const StoredTensor& t : stored.all()) {
    const auto at = expected.find(t.name);
    if (at == expected.end()) throw std::runtime_error(t.name + " is not a tensor of its model");
    const auto& [kind, spec] = at->second;
    const StoredNumbers& type = *std::ranges::find(kStoredNumbers, t.type, &StoredNumbers::type);
    if (&type == std::end(kStoredNumbers) || (type.numbers != spec.numbers && !kind.empty()))
      throw std::runtime_error(t.name + " has dtype " + t.type_name + ", not " + stored_type(spec.numbers));
    if (!std::equal(t.shape.begin(), t.shape.end(), spec.shape.begin(), spec.shape.end(),
                    [](uint64_t a, int b) { return a == static_cast<uint64_t>(b); }))
      throw std::runtime_error(t.name + " has another shape than in its model");
    slices.push_back({t.name, t.begin, t.end - t.begin, type.numbers});
    ++found[kind];
  }
  if (found[""] != table.size())
    throw std::runtime_error("it lists " + std::to_string(found[""]) + " weights, and its model has " +
                             std::to_string(table.size()));
  for (const Optimizer* row : optimizers)
    for (const Slot& slot : row->slots)
      if (found[slot.name] != found[row->slots[0].name]) throw std::runtime_error("its optimizer state is incomplete");
  std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return slices;
}

// "" if there is none.
std::string metadata(const StoredTensors& stored, const char* key) {
  const auto found = stored.metadata().find(key);
  return found == stored.metadata().end() ? "" : found->second;
}

uint64_t sum_of(const std::string& digits) {
  uint64_t sum = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), sum, 16);
  if (format_hash(sum) != digits) throw std::runtime_error("its checksum is not 16 hexadecimal digits");
  return sum;
}

CheckpointFile open_checkpoint(const std::string& path) {
  if (fs::is_directory(path)) throw std::runtime_error(path + " is a folder, not a checkpoint");
  if (fs::exists(path) && !fs::is_regular_file(path)) throw std::runtime_error(path + kForeign);
  const auto file = std::make_shared<const InputFile>(path);
  std::string opening(kOpening.size(), ' ');
  if (file->size() < kSumAt + kNoSum.size()) file->fail(kForeign);
  file->read(opening.data(), opening.size(), sizeof(uint64_t));
  if (opening != kOpening) file->fail(kForeign);
  const StoredTensors stored(file);
  const std::string version = metadata(stored, "version");
  if (version != kVersion)
    file->fail(" is a checkpoint of version " + (version.empty() ? "unknown" : one_line(version)) +
               "; this train_gpt reads version " + kVersion);
  CheckpointFile c;
  c.file = file;
  try {
    const json fields = parse_json(metadata(stored, "train_gpt"), 8);
    c.header = header_of(fields, train_options_of(fields.at("settings")));
    c.table = table_of(c.header.options.config, stored.all().size());
    const Optimizers optimizers = c.header.optimizer ? c.header.options.optimizers() : Optimizers();
    c.slices = slices_of(stored, c.table, optimizers);
    c.sum = sum_of(metadata(stored, "checksum"));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    file->fail(" is corrupted: its header cannot be read (" + one_line(plain_text(error)) + ")");
  }
  c.start.resize(c.slices.front().begin);
  file->read(c.start.data(), c.start.size(), 0);
  c.start.replace(kSumAt, kNoSum.size(), kNoSum);
  c.end = file->size();
  return c;
}

// A range of bytes in the file, and its place in memory.
template <class Byte>
struct ByteRange {
  uint64_t begin, end;
  Byte* memory;  // null: only the checksum needs them
};

// Adds bytes of the file to the checksum, and stores them in their place.
void read_part(const CheckpointFile& c, Checksum& sum, const ByteRange<char>& part, uint64_t from, uint64_t to) {
  if (to <= c.start.size()) return sum.add(c.start.data() + from, to - from);
  const uint64_t most = std::min(to - from, kChecksumPiece);
  const auto elsewhere = part.memory ? nullptr : std::make_unique_for_overwrite<char[]>(most);
  for (uint64_t n; from < to; from += n) {
    n = std::min(to - from, most);
    char* memory = part.memory ? part.memory + (from - part.begin) : elsewhere.get();
    c.file->read(memory, n, from);
    sum.add(memory, n);
  }
}

// Reads every slice to its address in `to` (null: nowhere), and compares the checksum.
void read_slices(const CheckpointFile& c, const std::vector<char*>& to) {
  std::vector<ByteRange<char>> parts = {{0, c.start.size(), nullptr}};
  const auto add = [&](uint64_t begin, uint64_t end, char* memory) {
    if (parts.back().end < begin) parts.push_back({parts.back().end, begin, nullptr});
    parts.push_back({begin, end, memory});
  };
  for (size_t i = 0; i < c.slices.size(); ++i)
    if (to[i]) add(c.slices[i].begin, c.slices[i].begin + c.slices[i].bytes, to[i]);
  add(c.end, c.end, nullptr);
  const uint64_t sum = checksum_in_pieces(c.end, [&](Checksum& piece, uint64_t begin, uint64_t end) {
    each_within(parts, begin, end,
                [&](auto& part, uint64_t from, uint64_t to) { read_part(c, piece, part, from, to); });
  });
  if (sum != c.sum) c.file->fail(" is corrupted: its checksum is wrong");
}

void require_same_tensors(const std::string& path, const std::vector<TensorSpec>& found,
                          const std::vector<TensorSpec>& expected) {
  std::unordered_map<std::string_view, const TensorSpec*> by_name;
  for (const TensorSpec& tensor : found) by_name[tensor.name] = &tensor;
  const auto fail = [&](const std::string& in_model, const std::string& in_file) {
    throw std::runtime_error(path + " does not fit this model: expected " + in_model + ", found " + in_file);
  };
  for (const TensorSpec& spec : expected) {
    const auto tensor = by_name.find(spec.name);
    if (tensor == by_name.end()) return fail(described(spec), "no such tensor");
    if (tensor->second->shape != spec.shape) fail(described(spec), described(*tensor->second));
    by_name.erase(tensor);
  }
  if (!by_name.empty()) fail("no further tensor", described(*by_name.begin()->second));
}

// ---- writing ---------------------------------------------------------------------------------------------

// The program that writes the file, and when.
json program_json() {
  const ProgramRecord& p = this_program();
  return {{"version", p.version}, {"compiler", p.compiler}, {"simd", p.simd}, {"date", date_now()}};
}

// The numbers of a model, and those that training changes in a copy.
struct WeightsToWrite {
  Buffer copy;
  std::vector<const float*> numbers;  // of each tensor in the table
};

WeightsToWrite in_place(const Model& model) {
  WeightsToWrite weights;
  for (const TensorSpec& spec : model.table) weights.numbers.push_back(model.weights.get() + spec.offset);
  return weights;
}

bool changes(const TensorSpec& spec) { return spec.gradient != kNoGradient; }

size_t changing_floats(const std::vector<TensorSpec>& table) {
  size_t floats = 0;
  for (const TensorSpec& spec : table) floats += changes(spec) ? spec.size() : 0;
  return floats;
}

void copy_floats(float* to, const float* from, size_t n) {
  parallel_floats(n, [&](size_t begin, size_t end) { std::copy(from + begin, from + end, to + begin); });
}

WeightsToWrite copied(const Model& model) {
  WeightsToWrite weights = in_place(model);
  weights.copy = allocate(changing_floats(model.table));
  float* to = weights.copy.get();
  for (size_t i = 0; i < model.table.size(); ++i) {
    if (!changes(model.table[i])) continue;
    const size_t n = model.table[i].size();
    copy_floats(to, weights.numbers[i], n);
    weights.numbers[i] = to;
    to += n;
  }
  return weights;
}

// Writes the weights, and the optimizer's state unless it is null.
void write_checkpoint(const std::string& path, const CheckpointHeader& header, const std::vector<TensorSpec>& table,
                      const WeightsToWrite& weights, const float* state) {
  std::vector<NewTensor> tensors;
  std::vector<std::pair<const float*, size_t>> numbers;  // each tensor's numbers, and their bytes
  const auto add = [&](const std::string& name, const TensorSpec& spec, const float* first) {
    const StoredNumbers& type = *std::ranges::find(kStoredNumbers, spec.numbers, &StoredNumbers::numbers);
    tensors.push_back({name, {spec.shape.begin(), spec.shape.end()}, {}, &type.written});
    numbers.emplace_back(first, spec.size() * type.written.bytes);
  };
  for (size_t i = 0; i < table.size(); ++i) add(table[i].name, table[i], weights.numbers[i]);
  if (state)
    for (const TensorSpec& spec : state_table(table)) add(stored_name(spec.name), spec, state + spec.offset);
  std::string start = safetensors_header(path, tensors,
                                         {{"checksum", std::string(kNoSum)},  // sorts first
                                          {"format", "pt"},
                                          {"program", to_text(program_json())},
                                          {"train_gpt", to_text(to_json(header))},
                                          {"version", kVersion}},
                                         kDataAlignment);
  std::vector<ByteRange<const char>> parts = {{0, start.size(), start.data()}};
  for (const auto& [first, bytes] : numbers) {
    const uint64_t begin = parts.back().end;
    parts.push_back({begin, begin + bytes, reinterpret_cast<const char*>(first)});
  }
  const uint64_t sum = checksum_in_pieces(parts.back().end, [&](Checksum& piece, uint64_t begin, uint64_t end) {
    each_within(parts, begin, end, [&](auto& part, uint64_t from, uint64_t to) {
      piece.add(part.memory + (from - part.begin), to - from);
    });
  });
  start.replace(kSumAt, kNoSum.size(), format_hash(sum));  // in memory, before writing

  WholeFile file(path);
  for (const auto& part : parts) file.write(part.memory, part.end - part.begin);
  file.publish();
}

Buffer copy_of(const float* x, size_t n) {
  Buffer copy = allocate(n);
  copy_floats(copy.get(), x, n);
  return copy;
}

// ---- models of other programs ----------------------------------------------------------------------------

// `folder` says whether the format is a folder, or a file.
CheckpointHeader imported_header(const ForeignModel& from, const std::string& path, bool folder) {
  CheckpointHeader h;
  h.options.preset = from.preset();
  h.options.config = from.config();
  h.options.init_from = from.base();
  h.tokenizer = from.tokenizer();
  h.options.tokenizer = name_of_kind(h.tokenizer.kind());
  if (h.tokenizer.reads_token_files()) {
    const fs::path model = from.base().empty() ? path : from.base();
    const bool inside = folder && !fs::is_directory(model);
    h.options.tokenizer = fs::absolute(inside ? fs::absolute(model).parent_path() : model).lexically_normal().string();
  }
  h.options.separator = h.tokenizer.name_of_special(from.decoder_start());
  if (from.decoder_start() >= 0 && h.options.separator.empty() && !h.tokenizer.unread())
    throw std::runtime_error(path + ": its decoder begins with token " + std::to_string(from.decoder_start()) +
                             ", which is not a special token of its tokenizer");
  if (h.options.separator.empty()) h.options.separator = h.tokenizer.separator();
  h.options.chat = template_of_jinja(from.chat_template(), h.tokenizer);
  h.converses = h.options.chat != nullptr;
  complete(h.options);
  h.companions = from.companions();
  h.came_dtype = from.dtype();
  h.numbers = from.numbers();
  if (h.tokenizer.vocabulary() > from.config().vocab_size)
    throw std::runtime_error(path + " has a tokenizer with more tokens than its model");
  return h;
}

CheckpointHeader imported_header(const std::string& path, const Format& format) {
  return imported_header(*format.open(path), path, format.folder);
}

std::vector<TensorSpec> whole_table(const Config& config) {
  Layout layout;
  declare_model(layout, config);
  return layout.table();
}

void import_weights(const std::string& path, const ForeignModel& from, Model& model) {
  require_same_tensors(path, whole_table(from.config()), model.table);
  from.load(model);
}

}  // namespace

std::string described(const TensorSpec& tensor) {
  std::string text = tensor.name;
  for (const int& d : tensor.shape) text += (&d == tensor.shape.data() ? " (" : ", ") + std::to_string(d);
  return text + ")";
}

std::string note_on_chat(const CheckpointHeader& header) {
  if (header.options.chat || chat_template_in(header.companions).empty()) return "";
  std::string known;
  for (const ChatTemplate& row : chat_templates()) known += (known.empty() ? "" : " and ") + std::string(row.name);
  return "the chat template that came with this model is not used, because train_gpt knows only " + known;
}

// ---- checkpoints -----------------------------------------------------------------------------------------

void save_checkpoint(const std::string& path, const CheckpointHeader& header, const Model& model,
                     const Buffer* state) {
  CheckpointHeader h = header;
  h.optimizer = state != nullptr;
  write_checkpoint(path, h, model.table, in_place(model), state ? state->get() : nullptr);
}

std::shared_future<void> save_checkpoint_later(const std::string& path, const CheckpointHeader& header,
                                               const Model& model, const Buffer* state,
                                               const std::shared_future<void>& after) {
  const size_t of_state = state ? state_floats(model.table) : 0, floats = changing_floats(model.table) + of_state;
  const Machine machine = detect_machine();
  const size_t available = machine.memory_free ? machine.memory_free : machine.memory / 2;
  if (available < floats * sizeof(float) / 5 * 6) return {};
  CheckpointHeader h = header;
  h.optimizer = state != nullptr;
  try {
    std::pair copies{copied(model), state ? copy_of(state->get(), of_state) : nullptr};
    return std::async(std::launch::async, [path, h, after, table = model.table, copies = std::move(copies)]() mutable {
      use_threads(1);  // only this thread, because training uses the others
      const auto [weights, numbers] = std::move(copies);  // freed before the result is fetched
      if (after.valid()) after.get();
      write_checkpoint(path, h, table, weights, numbers.get());
    });
  } catch (const std::bad_alloc&) {
  } catch (const std::system_error&) {  // no thread
  }
  return {};
}

CheckpointHeader read_checkpoint_header(const std::string& path) {
  const Format* format = format_of(path);
  return format ? imported_header(path, *format) : open_checkpoint(path).header;
}

CheckpointHeader verify_checkpoint(const std::string& path) {
  if (const Format* format = format_of(path)) return imported_header(path, *format);
  CheckpointFile file = open_checkpoint(path);
  read_slices(file, std::vector<char*>(file.slices.size()));
  return file.header;
}

namespace {

// The addresses of slices. If a tensor's numbers have another type in the file, they are converted at the end.
class Slices {
 public:
  explicit Slices(const TensorPlaces& tensors) : tensors_(tensors) {}

  // Null for a slice that nothing asks for.
  char* of(const StoredSlice& slice) {
    const auto found = tensors_.find(slice.tensor);
    if (found == tensors_.end()) return nullptr;
    const auto& [spec, buffer] = found->second;
    if (slice.numbers == spec.numbers) return reinterpret_cast<char*>(buffer + spec.offset);
    to_round_.push_back(std::make_unique<FloatsToWrite>(buffer, spec));
    float* floats = to_round_.back()->data();
    if (slice.numbers == NumberType::fp32) return reinterpret_cast<char*>(floats);
    to_widen_.emplace_back(slice.numbers, floats, spec.size());
    return reinterpret_cast<char*>(floats) + slice.bytes;  // the second half of the floats
  }
  void convert() {
    for (const auto& [numbers, floats, size] : to_widen_) widen(numbers, floats, size);
    to_round_.clear();
  }

 private:
  const TensorPlaces& tensors_;
  std::vector<std::unique_ptr<FloatsToWrite>> to_round_;
  std::vector<std::tuple<NumberType, float*, size_t>> to_widen_;
};

// Reads each tensor that has a place.
void read_numbers(const std::string& path, const CheckpointFile& file, const TensorPlaces& places) {
  Slices slices(places);
  std::vector<char*> to;
  for (const StoredSlice& slice : file.slices) to.push_back(slices.of(slice));
  if (static_cast<size_t>(std::ranges::count_if(to, [](const char* p) { return p; })) < places.size())
    throw std::runtime_error(path + " lacks the optimizer state of tensors that train");
  read_slices(file, to);
  slices.convert();
  if (const TensorSpec* bad = first_non_finite(places))
    throw std::runtime_error(path + " cannot be used: " + bad->name +
                             " is not finite, because its training diverged");
}

}  // namespace

void load_checkpoint(const std::string& path, Model& model, Buffer* state) {
  if (const Format* format = format_of(path)) {
    if (state) throw std::runtime_error(path + " holds no optimizer state to resume from");
    return import_weights(path, *format->open(path), model);
  }
  const CheckpointFile file = open_checkpoint(path);
  require_same_tensors(path, file.table, model.table);
  if (state && !file.header.optimizer) throw std::runtime_error(path + " holds no optimizer state to resume from");
  TensorPlaces to = places_in(model.table, model.weights.get());
  if (state)
    for (const TensorSpec& spec : state_table(model.table)) to[stored_name(spec.name)] = {spec, state->get()};
  read_numbers(path, file, to);
}

StoredWeights::StoredWeights(const std::string& path) : path_(path) {
  if (const Format* format = format_of(path)) foreign_ = format->open(path);
  else own_ = open_checkpoint(path);
  table_ = foreign_ ? whole_table(foreign_->config()) : own_.table;
}

const Config& StoredWeights::config() const { return foreign_ ? foreign_->config() : own_.header.options.config; }

void StoredWeights::read(const TensorPlaces& to) const {
  foreign_ ? foreign_->load(to) : read_numbers(path_, own_, to);
}

TrainedModel load_adapted_model(const std::string& adapters, const std::string& base) {
  const std::unique_ptr<ForeignModel> from = open_adapted(adapters, base);
  TrainedModel trained{adapters, imported_header(*from, adapters, true), Model(from->config(), false)};
  import_weights(adapters, *from, trained.model);
  return trained;
}

namespace {

// A model whose matrices consist of such numbers, or, if `matrices` is open, of those that the file has.
Model unread_model(const CheckpointHeader& header, const std::string& path, std::optional<NumberType> matrices) {
  const Config& config = header.options.config;
  const std::vector<TensorSpec> whole = whole_table(config);
  std::vector<TensorSpec> table = whole;
  for (TensorSpec& spec : table) spec.trained = false;  // keep_frozen() then changes all matrices
  NumberType numbers = matrices.value_or(header.numbers);
  if (!matrices && !format_of(path)) {  // in a run's checkpoint, matrices that trained are floats
    std::map<std::string, NumberType> stored;
    for (const StoredSlice& slice : open_checkpoint(path).slices) stored[slice.tensor] = slice.numbers;
    for (TensorSpec& spec : table) {
      spec.trained = stored[spec.name] == NumberType::fp32;
      if (!spec.trained) numbers = stored[spec.name];
    }
  }
  keep_frozen(table, config, numbers);
  Model model(config, table, false);
  for (size_t i = 0; i < table.size(); ++i) model.table[i].trained = whole[i].trained;
  return model;
}

}  // namespace

TrainedModel load_trained_model(const std::string& path, std::optional<NumberType> matrices) {
  const CheckpointHeader header = read_checkpoint_header(path);
  if (header.options.config.fix_norm) {
    if (matrices.value_or(NumberType::fp32) != NumberType::fp32)
      throw std::invalid_argument(path + " was trained with --fix-norm, so its weights must be floats");
    matrices = NumberType::fp32;
  }
  TrainedModel trained{path, header, unread_model(header, path, matrices)};
  load_checkpoint(path, trained.model, nullptr);
  return trained;
}
