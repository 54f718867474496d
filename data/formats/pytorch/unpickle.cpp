#include "unpickle.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <unordered_map>

#include "data/strings/utf8.hpp"

namespace {

constexpr size_t kMostValues = 1 << 18;  // a model of a thousand tensors has 20,000
constexpr size_t kMostDimensions = 8;

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error("its pickle " + why); }

enum class Kind { mark, other, integer, text, list, dict, name, storage, tensor };

// `items` are the elements of a list or tuple, and the keys and values of a dict in turn. `text` is a name's or a
// storage's, whose type is `type`.
struct Value {
  Kind kind = Kind::other;
  int64_t number = 0;
  std::string text, type;
  std::vector<Value*> items = {};
  PickledTensor tensor = {};
};

std::vector<uint64_t> sizes_in(const Value& list) {
  if (list.kind != Kind::list || list.items.size() > kMostDimensions) refuse("has a shape that no tensor has");
  std::vector<uint64_t> sizes;
  for (const Value* size : list.items) {
    if (size->kind != Kind::integer || size->number < 0) refuse("has a shape that no tensor has");
    sizes.push_back(static_cast<uint64_t>(size->number));
  }
  return sizes;
}

// What the functions in the list would return.
PickledTensor rebuilt_tensor(const std::vector<Value*>& arguments) {
  const bool fits = arguments.size() >= 4 && arguments[0]->kind == Kind::storage &&
                    arguments[1]->kind == Kind::integer && arguments[1]->number >= 0;
  if (!fits) refuse("has a tensor without a storage");
  PickledTensor tensor{arguments[0]->text, arguments[0]->type, static_cast<uint64_t>(arguments[1]->number),
                       sizes_in(*arguments[2]), sizes_in(*arguments[3])};
  if (tensor.shape.size() != tensor.stride.size()) refuse("has a tensor with other strides than dimensions");
  return tensor;
}

void call_tensor(Value& result, const std::vector<Value*>& arguments) {
  result.kind = Kind::tensor;
  result.tensor = rebuilt_tensor(arguments);
}

void call_parameter(Value& result, const std::vector<Value*>& arguments) {
  if (arguments.empty() || arguments[0]->kind != Kind::tensor) refuse("has a parameter without a tensor");
  result.kind = Kind::tensor;
  result.tensor = arguments[0]->tensor;
}

void call_dict(Value& result, const std::vector<Value*>& arguments) {
  if (!arguments.empty()) refuse("calls collections.OrderedDict with arguments");
  result.kind = Kind::dict;
}

struct Function {
  const char* name;
  void (*call)(Value& result, const std::vector<Value*>& arguments);
};
constexpr Function kFunctions[] = {{"torch._utils._rebuild_tensor_v2", call_tensor},
                                   {"torch._utils._rebuild_parameter", call_parameter},
                                   {"collections.OrderedDict", call_dict}};

const Function* find_function(const std::string& name) {
  const auto row = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                [&](const Function& f) { return f.name == name; });
  return row == std::end(kFunctions) ? nullptr : row;
}

bool is_storage(const std::string& name) { return name.starts_with("torch.") && name.ends_with("Storage"); }

class Machine {
 public:
  explicit Machine(std::string_view bytes) : rest_(bytes) {}

  const Value& run() {
    for (bool stops = false; !stops;) {
      const unsigned char opcode = take(1)[0];
      stops = opcode == '.';
      if (!stops) step(opcode);
    }
    return *pop();
  }

 private:
  std::string_view take(uint64_t count) {
    if (count > rest_.size()) refuse("is cut short");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  template <class T>
  T number() {
    T x;
    std::memcpy(&x, take(sizeof x).data(), sizeof x);
    return x;
  }

  std::string line() {
    const size_t end = rest_.find('\n');
    if (end == rest_.npos) refuse("is cut short");
    const std::string text(take(end));
    take(1);
    return text;
  }

  Value& push(Kind kind) {
    if (values_.size() == kMostValues) refuse("has more than 262,144 values");
    stack_.push_back(&values_.emplace_back());
    stack_.back()->kind = kind;
    return *stack_.back();
  }

  void push_number(int64_t x) { push(Kind::integer).number = x; }
  void push_text(std::string_view text) { push(Kind::text).text = text; }

  Value* pop() {
    if (stack_.empty() || stack_.back()->kind == Kind::mark) refuse("takes a value that is not there");
    Value* top = stack_.back();
    stack_.pop_back();
    return top;
  }

  std::vector<Value*> pop(size_t count) {
    std::vector<Value*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  std::vector<Value*> pop_to_mark() {
    std::vector<Value*> items;
    while (!stack_.empty() && stack_.back()->kind != Kind::mark) items.push_back(pop());
    if (stack_.empty()) refuse("takes a value that is not there");
    stack_.pop_back();
    std::reverse(items.begin(), items.end());
    return items;
  }

  void push_list(std::vector<Value*> items) { push(Kind::list).items = std::move(items); }

  void append(Kind kind, const std::vector<Value*>& items) {
    Value* to = stack_.empty() ? nullptr : stack_.back();
    if (!to || to->kind != kind || (kind == Kind::dict && items.size() % 2 != 0)) refuse("adds to what holds nothing");
    to->items.insert(to->items.end(), items.begin(), items.end());
  }

  void push_name(const std::string& name) {
    if (!find_function(name) && !is_storage(name))
      refuse("names " + in_quotes(name) + ", which no dict of tensors needs: train_gpt calls nothing in a pickle");
    push(Kind::name).text = name;
  }

  void push_storage() {
    const Value* id = pop();
    const bool fits = id->kind == Kind::list && id->items.size() == 5 && id->items[1]->kind == Kind::name &&
                      is_storage(id->items[1]->text) && id->items[2]->kind == Kind::text;
    if (!fits) refuse("has a storage of an unknown kind");
    Value& storage = push(Kind::storage);
    storage.text = id->items[2]->text;
    storage.type = id->items[1]->text.substr(6);
  }

  void reduce() {
    const Value *arguments = pop(), *name = pop();
    const Function* function = name->kind == Kind::name ? find_function(name->text) : nullptr;
    if (!function || arguments->kind != Kind::list) refuse("calls what is no function");
    function->call(push(Kind::other), arguments->items);
  }

  // Attributes of a dict, such as the versions of its modules, change no tensor.
  void build() {
    pop();
    append(Kind::dict, {});
  }

  void push_long() {
    const size_t count = number<uint8_t>();
    if (count > sizeof(int64_t)) refuse("has a number of more than 64 bits");
    int64_t x = 0;
    const std::string_view bytes = take(count);
    std::memcpy(&x, bytes.data(), count);
    if (count > 0 && count < sizeof x && bytes.back() & 0x80) x -= int64_t{1} << 8 * count;
    push_number(x);
  }

  void keep(uint64_t key) {
    if (stack_.empty()) refuse("takes a value that is not there");
    memo_[key] = stack_.back();
  }

  void push_kept(uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) refuse("takes a value that is not there");
    stack_.push_back(found->second);
  }

  void step(unsigned char opcode) {
    switch (opcode) {
      case 0x80: take(1); break;  // PROTO
      case 0x95: take(8); break;  // FRAME
      case '(': push(Kind::mark); break;
      case 'N': case 0x88: case 0x89: push(Kind::other); break;
      case 'K': push_number(number<uint8_t>()); break;
      case 'M': push_number(number<uint16_t>()); break;
      case 'J': push_number(number<int32_t>()); break;
      case 0x8a: push_long(); break;
      case 'G': take(8); push(Kind::other); break;  // BINFLOAT
      case 'X': push_text(take(number<uint32_t>())); break;
      case 0x8c: push_text(take(number<uint8_t>())); break;
      case ')': case ']': push_list({}); break;
      case '}': push(Kind::dict); break;
      case 't': push_list(pop_to_mark()); break;
      case 0x85: push_list(pop(1)); break;
      case 0x86: push_list(pop(2)); break;
      case 0x87: push_list(pop(3)); break;
      case 'a': append(Kind::list, pop(1)); break;
      case 'e': append(Kind::list, pop_to_mark()); break;
      case 's': append(Kind::dict, pop(2)); break;
      case 'u': append(Kind::dict, pop_to_mark()); break;
      case 'c': { const std::string module = line(); push_name(module + "." + line()); break; }
      case 0x93: { const auto parts = pop(2); push_name(parts[0]->text + "." + parts[1]->text); break; }
      case 'Q': push_storage(); break;
      case 'R': reduce(); break;
      case 'b': build(); break;
      case 'q': keep(number<uint8_t>()); break;
      case 'r': keep(number<uint32_t>()); break;
      case 0x94: keep(memo_.size()); break;
      case 'h': push_kept(number<uint8_t>()); break;
      case 'j': push_kept(number<uint32_t>()); break;
      default: {
        char code[8];
        std::snprintf(code, sizeof code, "0x%02x", opcode);
        refuse("has the instruction " + std::string(code) + ", which no dict of tensors needs");
      }
    }
  }

  std::string_view rest_;
  std::deque<Value> values_;  // all of them: a pickle may make circles
  std::vector<Value*> stack_;
  std::unordered_map<uint64_t, Value*> memo_;
};

}  // namespace

std::map<std::string, PickledTensor> unpickle_tensors(std::string_view bytes) {
  Machine machine(bytes);
  const Value& whole = machine.run();
  if (whole.kind != Kind::dict) refuse("is no dict of tensors");
  std::map<std::string, PickledTensor> tensors;
  for (size_t i = 0; i + 1 < whole.items.size(); i += 2) {
    const Value &name = *whole.items[i], &value = *whole.items[i + 1];
    if (name.kind != Kind::text) refuse("is no dict of tensors with names");
    if (value.kind != Kind::tensor) refuse("has " + in_quotes(name.text) + ", which is no tensor");
    if (!tensors.emplace(name.text, value.tensor).second) refuse("has " + in_quotes(name.text) + " twice");
  }
  return tensors;
}
