#include "masking.hpp"

#include <algorithm>
#include <cmath>

#include "layers/kernels/random.hpp"

std::string mask_name(const Tokenizer& tokenizer) {
  const std::vector<std::string> special = tokenizer.special_names();
  for (const char* name : {kMaskName, "<mask>"})
    if (std::ranges::find(special, name) != special.end()) return name;
  return "";
}

std::vector<bool> special_tokens(const Tokenizer& tokenizer) {
  std::vector<bool> special;
  for (int token = 0; token < tokenizer.vocabulary(); ++token)
    special.push_back(!tokenizer.name_of_special(token).empty());
  return special;
}

Masking masking_with(const Tokenizer& tokenizer, double fraction) {
  return {.fraction = fraction, .token = tokenizer.special(mask_name(tokenizer)), .special = special_tokens(tokenizer)};
}

int masked_among(int n, double fraction) {
  return n == 0 ? 0 : std::max(1, static_cast<int>(std::lround(n * fraction)));
}

namespace {

// Moves `count` random places to the front.
void choose(std::vector<int>& places, int count, uint64_t key) {
  for (int i = 0; i < count; ++i)
    std::swap(places[i], places[i + rng::below(places.size() - i, key, i)]);
}

// Draws any token that is not special.
int ordinary_token(const Masking& masking, uint64_t key) {
  int token = 0;
  for (uint64_t draw = 0; masking.special[token = static_cast<int>(rng::below(masking.special.size(), key, draw))];)
    ++draw;
  return token;
}

// What the model reads in the place of a token.
int replaced(int token, const Masking& masking, uint64_t key) {
  const double chance = rng::uniform(key, 0);
  if (chance < .8) return masking.token;
  return chance < .9 ? ordinary_token(masking, rng::key({key, rng::word("token")})) : token;
}

}  // namespace

void mask_tokens(std::span<int> tokens, std::span<int> targets, const Masking& masking, uint64_t key) {
  std::vector<int> places;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!masking.special[tokens[i]]) places.push_back(static_cast<int>(i));
  const int count = masked_among(static_cast<int>(places.size()), masking.fraction);
  choose(places, count, rng::key({key, rng::word("places")}));
  for (int i = 0; i < count; ++i) {
    int& token = tokens[places[i]];
    targets[places[i]] = token;
    token = replaced(token, masking, rng::key({key, rng::word("replace"), uint64_t(places[i])}));
  }
}
