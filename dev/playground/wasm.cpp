// What WebAssembly needs in addition to layers/ and data/: exceptions, and the functions that the playground leaves
// out.

#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "data/files/mapped_file.hpp"
#include "data/options/command_settings.hpp"
#include "data/strings/pattern.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/model/resolve.hpp"
#include "layers/training/step.hpp"

// ---- exceptions ------------------------------------------------------------------------------------------

// Throws a JavaScript error, which ends the call of the exported function. `step` is Diverged's, or -1. No destructor
// runs, so the call's memory stays in use. Nothing in layers/ depends on a handler, and in data/ only resolved() does.
extern "C" __attribute__((import_module("page"), import_name("fail"), noreturn)) void page_fail(const char* message,
                                                                                             double step);

extern "C" void* __cxa_allocate_exception(size_t size) noexcept { return std::malloc(size); }

extern "C" [[noreturn]] void __cxa_throw(void* thrown, std::type_info* type, void* (*)(void*)) {
  if (*type == typeid(Diverged)) {
    const auto& diverged = *static_cast<const Diverged*>(thrown);
    page_fail(diverged.message().c_str(), static_cast<double>(diverged.step));
  }
  if (*type == typeid(ConfigError))  // resolved() spells settings as options
    page_fail(spelled(static_cast<const ConfigError*>(thrown)->marked, "--").c_str(), -1);
  if (*type == typeid(std::bad_alloc)) page_fail("there is not enough memory: choose a smaller model", -1);
  // All other exceptions of the project derive from std::exception, which lies at their beginning.
  page_fail(static_cast<const std::exception*>(thrown)->what(), -1);
}

// Destructors of thread_local objects: the only thread does not end.
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

// ---- left out --------------------------------------------------------------------------------------------

// The tokenizers are byte and char. Byte-pair encoding is left out, with the libraries that it needs.
int vocabulary_of_bpe(const std::string& name) {
  if (name != "byte" && name != "char")
    throw std::invalid_argument("--tokenizer " + name + " is not in the playground: choose byte or char");
  return 0;
}
std::vector<uint32_t> Bpe::encode(std::string_view, Unknown, size_t*, bool) const { std::abort(); }
Bpe bpe_from_json(const std::string&) { std::abort(); }
std::string json_with_begin(const JsonParts&, const SpecialToken*) { std::abort(); }
std::string json_with_special(const JsonParts&, const std::vector<SpecialToken>&) { std::abort(); }
std::vector<std::string_view> Bpe::cut(std::string_view, size_t) const { std::abort(); }
std::vector<uint32_t> Pieces::encode(std::string_view) const { std::abort(); }
uint32_t Pieces::token_of_byte(uint32_t) const { std::abort(); }

// --train-only and --freeze are not in the playground.
Pattern::Pattern(const std::string&, const std::string&) { std::abort(); }
bool Pattern::matches(const std::string&) const { std::abort(); }

// The playground does not export.
std::vector<std::string> format_names() { return {}; }
std::vector<std::string> format_dtypes() { return {}; }

// The playground maps no file.
void require_mapped_files() {}
