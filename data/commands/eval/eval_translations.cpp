#include "eval_translations.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "data/corpus/translation.hpp"
#include "data/host/interrupt.hpp"
#include "data/host/progress.hpp"
#include "data/run/generate_text.hpp"
#include "data/strings/utf8.hpp"

namespace {

// Returns what greedy decoding writes for a source, as `sample` does. "" if the context is full before it ends.
std::string target_of(const Model& model, const Dataset& data, const std::vector<int>& source) {
  const Generation how{.length = model.config.context, .sampling = {.temperature = 0}, .around = data.around,
                       .stopped = interrupted, .within_context = true, .source = source};
  std::string text;
  const Generated result = generate_text(model, data.tokenizer, data.around.start(), how,
                                         [&](const std::string& piece) { text += piece; });
  return result.end == std::string_view("document") ? text : "";
}

}  // namespace

Translations count_translations(const Model& model, const Dataset& data, const std::string& grammar) {
  const SynchronousGrammar &pairs = pair_grammar(grammar), targets = pairs.targets();
  Translations count;
  Progress progress(0, 0, "translations", 10);
  progress.set_total(static_cast<int64_t>(data.val.windows().size()));
  for (const TokenWindow& window : data.val.windows()) {
    progress.update(count.all, [] { return std::string(); });
    std::vector<int> source;
    for (int i = 0; i < window.source_length; ++i) source.push_back(static_cast<int>(data.tokens[window.source + i]));
    const std::string text = data.tokenizer.decode({source.begin(), source.end() - 1});
    const SynchronousGrammar translations = pairs.given(text);
    if (translations.rules.empty())
      throw std::runtime_error("--pairs-of " + grammar + " has no sentence " + in_quotes(text) +
                               ": name the grammar of this text, or leave --pairs-of out");
    const std::string target = target_of(model, data, source);
    if (interrupted()) break;
    ++count.all;
    count.right += std::isfinite(translations.nats(target));
    count.sentences += std::isfinite(targets.nats(target));
  }
  return count;
}
