#include "translation.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <vector>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"
#include "layers/config/enum_names.hpp"
#include "layers/kernels/random.hpp"

namespace {

constexpr int kDeepest = 2;

// Features: X scene, C class of a noun, G H gender, N M number; K, whether a noun may be one of two classes.
constexpr const char* kTranslation = R"(
X: field / town
C: being / thing
G H: sun - o / moon - a
N M: one / many s n
K: clear / any

sentence:
  [scene X], [story X]. = (3) [2] [1]. | (1) ve [2] [1].

scene field:
  By the river = sur rivu / In the woods = sur foru / On the hill = sur montu / Near the farm = sur agru
scene town:
  At the market = sur bazu / In the school = sur skulu / Near the station = sur garu / On the square = sur plasu

story X:
  [clause X] because [clause X] = [2] zar [1]
  [clause X] when [clause X] = [2] tem [1]
  [clause X] before [clause X] = [2] pos [1]
  [clause X] after [clause X] = [1] pos [2]
  [clause X] and [clause X] = (2) [2] i [1] | (1) [1] ed [2]

clause X:
  (5) [phrase C G N X] [event C G N X] = [2] [1]
  (2) [phrase C G N X] [manner C] [event C G N X] = (2) [2] [3] [1] | (1) [3] [2] [1]
  (2) [phrase C G N X] [event C G N X] [time] = [3] [2] [1]
  (1) [phrase being G N X] [said G N] that [^clause X] = [3] del [2] [1]

phrase C G N X:
  [noun phrase any C G N X] = [1]
phrase being G one X:
  [name G] = [1]
noun phrase K C G N X:
  (4) [which N] [noun K C G N X] = [1] [2]
  (3) [which N] [look C G N] [noun K C G N X] = [1] [3] [2]
  (1) [which N] [noun K C G N X] that [^relative C G N X] = [3] ki{G}{N} [1] [2]
  (1) [which N] [look C G N] [noun K C G N X] that [^relative C G N X] = [4] ki{G}{N} [1] [3] [2]

relative C G N X:
  (3) [event C G N X] = [1]
  (1) [phrase being H M X] [saw H M] = [2] [1]
  (1) [phrase being H M X] [fed C H M] = [2] [1]
  (1) [phrase being H M X] [drew C H M] = [2] [1]

event being G N X:
  (6) [slept being G N] = [1]
  (3) [fed C G N] [noun phrase any C H M X] = [2] [1]
  (2) [saw G N] [noun phrase clear C H M X] = [2] [1]
  (2) [drew C G N] [noun phrase clear C H M X] = [2] [1]
event thing G N X:
  (4) [slept thing G N] = [1]
  (3) [hit G N] [noun phrase any being H M X] = [2] [1]

which one:
  the = le / one = un / every = omi
which many:
  the = le / some = kel / two = dus / many = mul

look C G N:
  small = pik{G}{N} / little = pik{G}{N} / big = gros{G}{N} / large = gros{G}{N} / red = rub{G}{N}
  white = (3) blank{G}{N} | (1) niv{G}{N} / strange = mist{G}{N} / famous = fam{G}{N}
look being G N:
  old = sen{G}{N} / light = lev{G}{N} / young = jun{G}{N}
look thing G N:
  old = vet{G}{N} / light = hel{G}{N} / new = nov{G}{N}

name sun:
  Ben = Beno / Hugo = Hugo / Leo = Leo / Sam = Samo
name moon:
  Anna = Anna / Kate = Kata / Mia = Mia / Rose = Rosa

noun K being sun N X:
  duck{N} = (3) kvako{N} | (1) nado{N} / dog{N} = vufo{N} / frog{N} = ribo{N} / owl{N} = huho{N}
  baker{N} = pano{N} / sailor{N} = (3) maro{N} | (1) navo{N} / farmer{N} = kolno{N}
noun K being moon N X:
  cat{N} = miava{N} / cow{N} = mula{N} / goat{N} = beka{N} / hen{N} = (3) klaka{N} | (1) pula{N}
  teacher{N} = daska{N} / doctor{N} = medika{N} / painter{N} = (3) farba{N} | (1) tinta{N}
noun any being sun N X:
  crane{N} = gruo{N} / seal{N} = foko{N} / ruler{N} = rego{N}
noun any being moon N X:
  bat{N} = flita{N} / kite{N} = milva{N} / pitcher{N} = lansa{N}

noun K thing sun N X:
  cart{N} = karo{N} / drum{N} = (3) bumo{N} | (1) tambo{N} / ship{N} = bargo{N} / hat{N} = sapo{N}
  clock{N} = tiko{N} / table{N} = tavlo{N}
noun K thing moon N X:
  lamp{N} = luma{N} / bell{N} = (3) dina{N} | (1) kampa{N} / chair{N} = seda{N} / door{N} = porta{N}
  flag{N} = banda{N} / wheel{N} = rota{N}
noun any thing sun N X:
  bat{N} = klubo{N} / kite{N} = drako{N} / pitcher{N} = krugo{N}
noun any thing moon N X:
  crane{N} = lifta{N} / seal{N} = stampa{N} / ruler{N} = metra{N}
noun K thing sun N field:
  pen{N} = stalo{N} / trunk{N} = arbo{N}
noun K thing moon N field:
  bank{N} = ripa{N} / plant{N} = flora{N} / spring{N} = fonta{N}
noun K thing sun N town:
  bank{N} = mono{N} / plant{N} = fabro{N} / spring{N} = resoro{N}
noun K thing moon N town:
  pen{N} = pluma{N} / trunk{N} = kesta{N}

slept being G N:
  slept = dormis{G}{N} / sang = (3) kantis{G}{N} | (1) trilis{G}{N} / danced = salsis{G}{N} / laughed = ridis{G}{N}
  waited = atenis{G}{N} / ran = kuris{G}{N}
slept thing G N:
  fell = falis{G}{N} / broke = krakis{G}{N} / shook = tremis{G}{N} / burned = (3) flamis{G}{N} | (1) brulis{G}{N}
  rusted = rostis{G}{N} / vanished = evanis{G}{N}
said G N:
  said = diris{G}{N} / knew = sapis{G}{N} / dreamed = (3) revis{G}{N} | (1) sonis{G}{N} / heard = odis{G}{N}
fed being G N:
  fed = nutris{G}{N} / woke = vekis{G}{N} / greeted = (3) salutis{G}{N} | (1) halis{G}{N} / followed = sekvis{G}{N}
  helped = helpis{G}{N}
fed thing G N:
  mended = repis{G}{N} / painted = pentis{G}{N} / washed = lavis{G}{N} / sold = (3) vendis{G}{N} | (1) markis{G}{N}
  carried = latis{G}{N}
saw G N:
  saw = vidis{G}{N} / liked = (3) amis{G}{N} | (1) lubis{G}{N} / found = trovis{G}{N} / lost = perdis{G}{N}
drew being G N:
  drew = skizis{G}{N} / raised = bredis{G}{N} / missed = sopris{G}{N} / moved = koris{G}{N} / kept = gardis{G}{N}
drew thing G N:
  drew = tiris{G}{N} / raised = altis{G}{N} / missed = failis{G}{N} / moved = movis{G}{N} / kept = tenis{G}{N}
hit G N:
  hit = pukis{G}{N} / covered = kovris{G}{N} / scared = timis{G}{N} / pleased = plesis{G}{N}

manner being:
  gladly = gede / kindly = dolse / secretly = furte / again = ree
manner thing:
  suddenly = sube / slowly = lente / softly = mole / again = ree
time:
  at night = nokte / in the rain = pluve / on Sunday = sabe / in the snow = nive / at noon = zenite
)";

// Returns the text of a field of a JSON line.
std::string field_of(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string())
    throw std::runtime_error(std::string("there is no text \"") + field + "\"");
  return found->get<std::string>();
}

double entropy(const Production& p) { return -std::log(p.share); }

}  // namespace

const SynchronousGrammar& pair_grammar(std::string_view name) {
  static const std::vector<SynchronousGrammar> grammars = [] {
    std::vector<SynchronousGrammar> all;
    for (const PairGrammar& row : kPairGrammars) all.emplace_back(kTranslation, "sentence", kDeepest, row.literal);
    return all;
  }();
  return grammars[static_cast<size_t>(&row_named(kPairGrammars, "grammar of pairs", name) - kPairGrammars)];
}

SentencePair tell_pair(uint64_t seed, uint64_t index, const SynchronousGrammar& grammar) {
  const uint64_t key = rng::key({rng::word("translation"), seed, index});
  uint64_t choice = 0;
  return grammar.tell([&] { return rng::uniform(key, choice++); });
}

std::optional<double> translation_nats(const SynchronousGrammar& grammar, std::string_view source,
                                       std::string_view target) {
  const double nats = grammar.given(source).nats(target);
  return std::isinf(nats) ? std::nullopt : std::optional(nats);
}

PairForm form_of(std::string_view path) { return path.ends_with(".tsv") ? PairForm::tabs : PairForm::json; }

std::string line_of(const SentencePair& pair, PairForm form) {
  if (form == PairForm::tabs) return pair.source + "\t" + pair.target + "\n";
  return to_ascii({{"source", pair.source}, {"target", pair.target}}) + "\n";
}

SentencePair read_pair(std::string_view line) {
  if (line.starts_with("{")) {
    const nlohmann::json object = parse_json(line);
    return {field_of(object, "source"), field_of(object, "target")};
  }
  const size_t tab = line.find('\t');
  if (tab == line.npos || line.find('\t', tab + 1) != line.npos)
    throw std::runtime_error("not {\"source\": ..., \"target\": ...}, and not two texts with a tab between them: " +
                             in_quotes(line));
  return {std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))};
}

CorpusSummary tell_pairs(size_t bytes, size_t count, uint64_t seed, const SynchronousGrammar& grammar, PairForm form,
                         const std::function<void(const Story&)>& use) {
  CorpusSummary summary;
  std::unordered_set<uint64_t> told;  // so that no source to validate on occurs in training
  for (uint64_t index = 0; count == 0 || summary.stories < count; ++index) {
    const SentencePair pair = tell_pair(seed, index, grammar);
    if (!told.insert(rng::word(pair.source)).second) continue;
    const Story line = {line_of(pair, form), pair.nats};
    if (count == 0 && summary.bytes + line.text.size() > bytes) break;
    use(line);
    ++summary.stories;
    summary.bytes += line.text.size();
    summary.nats += line.nats;
  }
  return summary;
}

StoryCheck check_pairs(std::string_view text, std::string_view known, const SynchronousGrammar& grammar) {
  const auto read = [&](std::string_view line) -> LineReading {
    const SentencePair pair = read_pair(line);
    size_t readable = 0;
    const SynchronousGrammar translations = grammar.given(pair.source, &readable);
    if (translations.rules.empty())
      return {.readable = pair.source.substr(0, readable), .wrong = pair.source.substr(readable)};
    const double nats = translations.nats(pair.target, &readable);
    if (!std::isinf(nats)) return {.nats = nats};
    return {.readable = pair.target.substr(0, readable), .wrong = pair.target.substr(readable)};
  };
  return check_lines(text, known, [](std::string_view line) { return read_pair(line).source; }, read);
}

PairEntropies entropies_of(const SynchronousGrammar& grammar) {
  const SynchronousGrammar targets = grammar.targets();
  const auto of_targets = [](const Production& p) {
    double sum = 0;
    for (const auto& [share, side] : p.targets) sum -= share * std::log(share);
    return sum;
  };
  const auto bytes = [](const Production& p) {
    size_t sum = 0;
    for (const SideSymbol& symbol : p.source) sum += symbol.text.size();
    return static_cast<double>(sum);
  };
  PairEntropies h{.source = grammar.mean(entropy), .target = targets.mean(entropy), .floor = grammar.mean(of_targets),
                  .unigram = 0, .words = 0, .bytes = targets.mean(bytes), .longest = targets.most(bytes)};
  const std::map<std::string, double> words = targets.words();
  for (const auto& [word, count] : words) h.words += count;
  for (const auto& [word, count] : words) h.unigram -= count * std::log(count / h.words);
  return h;
}
