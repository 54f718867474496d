#include "corpus.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "data/strings/errors.hpp"
#include "layers/config/enum_names.hpp"
#include "layers/kernels/random.hpp"

// Variables: a b d people, c e looks, x y things, p place, s t spots, n where, v animal, w weather.
const NamedGrammar kStoryGrammars[2] = {
    {"stories", "about 200 bytes", 251, R"(
name: he his
  Anna | she | her / Kate | she | her / Mia | she | her / Rose | she | her
  Ben | he | his / Hugo | he | his / Leo | he | his / Sam | he | his

thing: did
  ball | threw / coin | flipped / drum | played / egg | rolled / flag | waved / gem | kissed / hat | wore / kite | flew
  lamp | lit / mat | shook / pot | banged / top | spun

look:
  blue / dark / green / huge / new / old / pink / red / shiny / tiny / ugly / white

place: at home
  farm | on the farm | farm animal / lake | by the lake | lake animal
  park | in the park | park animal / woods | in the woods | wild animal

farm animal: said food
  cow | mooed | grass / goat | bleated | hay / hen | clucked | seeds
lake animal: said food
  duck | quacked | bread / frog | croaked | flies / otter | squealed | fish
park animal: said food
  bee | buzzed | nectar / cat | meowed | milk / mouse | squeaked | cheese
wild animal: said food
  bear | growled | honey / fox | yelped | jam / wolf | howled | stew
sort:
  big / hungry / lonely / shy / small / thin

spot:
  behind the hedge / behind the rock / behind the wall / by the fence / by the gate / by the well
  in the grass / in the hay / in the tree / under the bench / under the bush / under the steps

weather: in
  foggy | in the fog / rainy | in the rain / snowy | in the snow / sunny | in the sun
time:
  day / evening / morning

when:
  One [w=weather] [time],

story:
  [when] [a=name] had a(n) [c=look] [x=thing]. [b=name] had a(n) [e=look] [y=thing]. [a] gave [b] the [c] [x], and [b]
    gave [a] the [e] [y]. Then [b] [x.did] the [c] [x], and [a] [y.did] the [e] [y] [w.in].
  [when] [a=name] lost a(n) [c=look] [x=thing]. [b=name] and [d=name] found the [c] [x] [s=spot]. "Is this your [x],
    [a]?" asked [d]. "Thank you, [d]! Thank you, [b]!" said [a]. Then [a] [x.did] the [c] [x].
  [when] [a=name] hid a(n) [c=look] [x=thing] [s=spot] and a(n) [e=look] [y=thing] [t=spot]. [b=name] looked [s] and
    [x.did] the [c] [x]. Then [b] looked [t] and [y.did] the [e] [y].
  [when] [a=name], [b=name] and [d=name] went to the [p=place]. They met a(n) [sort] [v=p.home] [spot]. The [v]
    [v.said]. "It wants [v.food]," said [d]. So [b] gave the [v] some [v.food], and [a] sang.
  [when] [a=name], [b=name] and [d=name] played. [a] hid [s=spot], and [b] hid [t=spot]. [d] looked [s] and found [a].
    Then [d] looked [t] and found [b]. "Well done, [d]!" said [a] and [b].
  [when] [a=name] gave a(n) [c=look] [x=thing] to [b=name]. [b] gave the [x] to [d=name]. [d] left the [x] [s=spot].
    "Where is my [c] [x]?" asked [a]. "Look [s]," said [d]. So [a] looked [s] and [x.did] the [c] [x].
)"},
    {"tales", "about 126 bytes", 149, R"(
girl:
  Anna / Cora / Eve / Ivy / Kate / Mia / Rose / Tess
boy:
  Ben / Dan / Finn / Hugo / Leo / Ned / Sam / Will

toy: did
  ball | threw / coin | flipped / drum | played / egg | rolled / flag | waved / gem | kissed / hat | wore / kite | flew
  lamp | lit / mat | shook / pot | banged / top | spun
tool: did
  axe | swung / bell | rang / cake | ate / fork | bent / horn | blew / jar | opened / key | turned / net | cast
  oar | pulled / pie | baked / rope | tied / vase | filled

color:
  amber / blue / cream / green / lilac / navy / orange / pink / red / silver / violet / white
look:
  big / clean / dusty / fine / huge / light / new / old / pretty / shiny / tiny / ugly

animal: said food
  bear | growled | honey / cow | mooed | grass / duck | quacked | bread / frog | croaked | flies
  goat | bleated | hay / hen | clucked | seeds / mouse | squeaked | cheese / otter | squealed | fish
  pony | neighed | oats / seal | barked | crabs / toad | burped | bugs / wolf | howled | stew

near:
  behind / beside / by / near / over / under
spot:
  in the barn / in the grass / in the hay / in the mud / in the pond / in the shed
place:
  on the bench / on the gate / on the hill / on the path / on the rock / on the wall

weather:
  cold / foggy / hot / misty / rainy / snowy / windy
time:
  day / evening / morning / night

when:
  One [weather] [time],

story:
  [when] [a=girl] had a(n) [c=color] [x=toy] and [b=boy] had a(n) [e=look] [y=tool]. [b] [x.did] the [x], and [a]
    [y.did] the [y] [spot].
  [when] [a=girl] lost a(n) [c=color] [x=toy]. [b=boy] found it [n=near] a(n) [e=look] [y=tool]. "My [c] [x]!" said [a],
    and [b] [y.did] the [y].
  [when] [a=girl] hid a(n) [c=color] [x=toy] [s=spot] and a(n) [e=look] [y=tool] [t=place]. [b=boy] looked [s] and
    [x.did] the [c] [x].
  [when] [a=girl] and [b=boy] met a(n) [e=look] [v=animal]. The [v] [v.said], so [a] gave it [v.food] from a(n)
    [c=color] [x=toy], and [b] [x.did] the [x].
  [when] [a=girl] gave a(n) [c=color] [x=toy] to [b=boy]. "Where is the [x]?" asked [a]. "It is [n=near] the [e=look]
    [y=tool]," said [b] and [y.did] the [y].
)"}};

namespace {

// What a grammar makes of a story without its newline.
LineReading read_story(std::string_view story, const Grammar& grammar) {
  size_t readable = 0;
  const std::vector<double> derivations = grammar.read("story", story, &readable);
  if (!derivations.empty()) return {.nats = derivations.front()};
  return {.readable = std::string(story.substr(0, readable)), .wrong = std::string(story.substr(readable))};
}

// The same for the grammars of stories and of tales: what the one makes of it that can produce more of it.
LineReading read_story(std::string_view story) {
  LineReading best;
  for (const NamedGrammar& row : kStoryGrammars) {
    LineReading reading = read_story(story, story_grammar(row.name));
    if (reading.nats) return reading;
    if (reading.readable.size() >= best.readable.size()) best = std::move(reading);
  }
  return best;
}

}  // namespace

const Grammar& story_grammar(std::string_view name) {
  static const std::vector<Grammar> grammars = [] {
    std::vector<Grammar> all;
    for (const NamedGrammar& row : kStoryGrammars) all.emplace_back(row.source);
    return all;
  }();
  return grammars[static_cast<size_t>(&row_named(kStoryGrammars, "grammar", name) - kStoryGrammars)];
}

Story tell_story(uint64_t seed, uint64_t index, const Grammar& grammar) {
  const uint64_t key = rng::key({rng::word("story"), seed, index});
  uint64_t choice = 0;
  Story story{"", 0};
  const auto choose = [&](size_t n) { return rng::below(n, key, choice++); };
  story.text = grammar.tell("story", choose, story.nats);
  story.text += '\n';
  return story;
}

std::optional<double> story_nats(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return read_story(text).nats;
}

StoryTeller teller_of(uint64_t seed, Grammar grammar) {
  return [seed, grammar = std::move(grammar)](uint64_t index) { return tell_story(seed, index, grammar); };
}

CorpusSummary tell_stories(size_t bytes, const StoryTeller& tell, const std::function<void(const Story&)>& use) {
  CorpusSummary summary;
  // Skip a story told before, so that no validation story occurs in training. Two stories are equal with probability
  // 7e-8 (the mean of P over 200,000 stories), so about 14 of the 20,000 in 4 MB are skipped. A model that remembered
  // all earlier stories could rule them out. That would save -log(1 - 20,000 · 7e-8) = 0.0014 of a story's 18 nats, so
  // the floor has a relative error of 1e-4. Lines of the lexicon are equal with probability 8e-13.
  std::unordered_set<uint64_t> told;
  for (uint64_t index = 0;; ++index) {
    const Story story = tell(index);
    if (!told.insert(rng::word(story.text)).second) continue;
    if (summary.bytes + story.text.size() > bytes) return summary;
    use(story);
    ++summary.stories;
    summary.bytes += story.text.size();
    summary.nats += story.nats;
  }
}

StoryCheck check_stories(std::string_view text, std::string_view known, const Grammar* grammar) {
  return check_lines(text, known, [](std::string_view line) { return std::string(line); },
                     [&](std::string_view line) { return grammar ? read_story(line, *grammar) : read_story(line); });
}

StoryCheck check_lines(std::string_view text, std::string_view known,
                       const std::function<std::string(std::string_view)>& key_of,
                       const std::function<LineReading(std::string_view)>& read) {
  const auto lines_of = [](std::string_view all, auto&& use) {
    for (size_t number = 1; !all.empty(); ++number) {
      const std::string_view line = all.substr(0, all.find('\n'));
      all.remove_prefix(std::min(all.size(), line.size() + 1));
      if (!line.empty()) use(line, number);
    }
  };
  std::unordered_set<std::string> known_lines, seen;
  lines_of(known, [&](std::string_view line, size_t) { known_lines.insert(key_of(line)); });
  StoryCheck check;
  lines_of(text, [&](std::string_view line, size_t number) {
    const auto [key, reading] = explained("line " + std::to_string(number) + ": ",
                                          [&] { return std::pair(key_of(line), read(line)); });
    ++check.lines;
    check.distinct += seen.insert(key).second;
    check.known += known_lines.count(key);
    if (reading.nats) {
      ++check.stories;
      check.nats += *reading.nats;
    } else if (check.first_wrong == 0) {
      check.first_wrong = number;
      check.readable = reading.readable;
      check.wrong = reading.wrong;
    }
  });
  return check;
}
