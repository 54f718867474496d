#include "text_source.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "data/corpus/corpus_files.hpp"
#include "data/corpus/translation.hpp"
#include "data/files/files.hpp"
#include "data/strings/format.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "token_files.hpp"

namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

// True if JSON lines are read as targets that follow from their sources.
bool translates(const JsonFields& fields) {
  if (fields.reads_pairs) return fields.source_field == "source" && fields.target_field == "target";
  return fields.prompt_field.name() == "source" && fields.completion_field.name() == "target" &&
         fields.learn == LearnedPart::completion;
}

// Returns the -log P of the lines of a generated corpus, or nothing if the text is something else. That of pairs is
// known if their targets are learned, and from their sources.
std::vector<double> nats_of(const Text& text, const JsonFields& fields) {
  if (text.files.size() != 1 || !fs::exists(nats_path(text.files[0].name))) return {};
  const Text::File& file = text.files[0];
  const bool has_columns = form_of(file.name) == PairForm::tabs;
  if (file.spans.empty()) return has_columns ? std::vector<double>() : read_nats(file.name, text.bytes);
  return translates(fields) ? read_nats(file.name, read_file(file.name)) : std::vector<double>();
}

void note_held_out(Text& text, const Names& files, bool nothing_left) {
  if (nothing_left) throw std::runtime_error("nothing is left to train on: " + note_of_held_out(files));
  if (!files.empty()) text.notes.push_back(note_of_held_out(files));
}

TextSource read_source(const Names& paths, const TextFiles& filter, const Names& held_out) {
  TextSource source;
  source.text = read_text(paths, filter, held_out);
  note_held_out(source.text, source.text.held_out, source.text.files.empty());
  source.pairs = filter.reads_pairs;
  source.nats = nats_of(source.text, filter);
  return source;
}

// Returns the token files for training and for validation.
Names find_all_tokens(const Names& paths, bool raw) {
  Names all = find_token_files(paths, raw);
  const Names validation = find_token_files(paths, raw, true);
  all.insert(all.end(), validation.begin(), validation.end());
  return all;
}

}  // namespace

std::string TextSource::name() const {
  if (token_files.empty()) return text.name;
  const auto more = static_cast<double>(token_files.size() - 1);
  return one_line(token_files[0]) + (more > 0 ? " and " + counted(more, "more file") : "");
}

TextSource open_source(const Names& paths, const TextFiles& filter, bool raw, const Names& held_out) {
  TextSource source;
  source.token_files = find_token_files(paths, raw);
  if (source.token_files.empty()) return read_source(paths, filter, held_out);
  if (filter.reads_pairs)
    throw std::runtime_error(source.token_files[0] + " holds tokens, and --objective pairs reads text: name files of "
                             "pairs");
  if (const Names repeated = remove_repeated(source.token_files); !repeated.empty())
    source.text.notes.push_back(note_of_repeated(repeated));
  if (const std::string note = note_of_texts_beside(paths, filter, find_all_tokens(paths, raw)); !note.empty())
    source.text.notes.push_back(note);
  for (const std::string& note : notes_on_token_files(paths, source.token_files))
    source.text.notes.push_back(one_line(note));
  const Names held = remove_held_out(source.token_files, find_token_files(held_out, raw));
  note_held_out(source.text, held, source.token_files.empty());
  return source;
}

TextSource open_measured(const Names& paths, const TextFiles& filter, bool raw) {
  TextSource source = open_source(paths, filter, raw);
  const Names validation = source.token_files.empty() ? Names() : find_token_files(paths, raw, true);
  const auto is_read = [&](const std::string& file) {
    return std::ranges::find(source.token_files, file) != source.token_files.end();
  };
  if (const auto other = std::ranges::find_if_not(validation, is_read); other != validation.end())
    source.text.notes.push_back("these are tokens to train on; to measure those for validation, name " +
                                one_line(*other));
  return source;
}

TextSource open_validation(const TextOptions& options, const TextSource& training, bool raw) {
  const bool tokens = !training.token_files.empty();
  TextSource source;
  if (options.val_data.empty()) {
    std::vector<std::string> folders = options.data;
    std::erase_if(folders, [](const std::string& path) { return !fs::is_directory(path); });
    if (tokens) source.token_files = find_token_files(folders, raw, true);
    return source;
  }
  source = open_measured(options.val_data, options, raw);
  if (tokens == source.token_files.empty())
    throw std::runtime_error("--data and --val-data are text and tokens: give both as text or both as tokens");
  return source;
}

std::string tokenizer_file_beside(const std::string& path) {
  return first_file(fs::is_directory(path) ? path : fs::path(path).parent_path().string(), kBesideTokens);
}

std::string tokenizer_file_of(const std::string& path, const std::string& tokenizer) {
  if (names_file(tokenizer)) return tokenizer;
  return tokenizer.empty() ? tokenizer_file_beside(path) : "";
}

std::string require_tokenizer_file(const std::string& file, const std::string& name) {
  const std::string found = tokenizer_file_of(file, name), beside = tokenizer_file_beside(file);
  if (!found.empty()) return found;
  if (!beside.empty())
    throw std::runtime_error(file + " holds tokens of " + beside + ", and not of --tokenizer " + name +
                             ": leave --tokenizer out");
  throw std::runtime_error(file + " holds tokens: name their tokenizer with --tokenizer FILE, or put its "
                                  "tokenizer.json next to them");
}

void fail_token(const Text& text, const NoToken& error, bool new_tokenizer) {
  const char* advice = "convert the file or leave it out";
  if (new_tokenizer) advice = "convert the file, leave it out, or use --tokenizer byte, which reads anything";
  if (error.is_utf8) advice = NoToken::kAdvice;
  throw std::runtime_error(text.place(error.at) + ": " + error.what() + "; " + advice);
}
