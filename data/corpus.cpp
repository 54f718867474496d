#include "corpus.hpp"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include <unistd.h>

#include "../layers/random.hpp"
#include "files.hpp"
#include "options.hpp"
#include "progress.hpp"

namespace {

// The format is explained in grammar.hpp. Letters: a b d people, c e looks, x y things, p place, s t u spots,
// v animal, q n pet and its name, w weather, m o r moods, k family, f food, l tool.
// Every rule is a prefix code: nothing one of its entries can say begins with what another can say. So the
// text decides each choice, and no story has two derivations. test_corpus.cpp proves that, and the length.
const char* const source = R"(
name: he his
  Anna | she | her / Cleo | she | her / Ella | she | her / Gwen | she | her / Ivy | she | her
  Kate | she | her / Mia | she | her / Rose | she | her / Ben | he | his / Dan | he | his / Finn | he | his
  Hugo | he | his / Jack | he | his / Leo | he | his / Otto | he | his / Sam | he | his

thing: did
  acorn | tossed / ball | threw / coin | flipped / drum | played / egg | rolled / flag | waved / gem | kissed
  hat | wore / kite | flew / lamp | lit / mat | shook / oar | lifted / pot | banged / ring | polished
  sled | pulled / top | spun

look:
  blue / dark / gold / huge / new / old / pink / red / shiny / tiny / ugly / white

place: at home
  lake | by the lake | water animal / river | by the river | water animal / sea | by the sea | water animal
  barn | in the barn | farm animal / farm | on the farm | farm animal / mill | by the mill | farm animal
  cave | in the cave | wild animal / hill | on the hill | wild animal / woods | in the woods | wild animal
  garden | in the garden | park animal / park | in the park | park animal / yard | in the yard | park animal

water animal: said food
  duck | quacked | bread / frog | croaked | flies / goose | honked | corn / otter | squealed | fish
farm animal: said food
  cow | mooed | grass / hen | clucked | seeds / goat | bleated | hay / horse | neighed | oats
wild animal: said food
  bear | growled | honey / wolf | howled | stew / owl | hooted | tea / fox | yelped | jam
park animal: said food
  mouse | squeaked | cheese / bee | buzzed | nectar / crow | cawed | nuts / cat | meowed | milk
sort:
  small / big / shy / thin / hungry / lonely / grumpy / old

pet: said
  dog | barked / kitten | purred / parrot | squawked / pony | snorted
pet name:
  Coco / Pip / Socks / Biscuit / Button / Momo / Pepper / Star

spot:
  under the bush / under the bench / under the steps / behind the wall / behind the rock / behind the shed
  in the hay / in the tree / in the grass / by the gate / by the well / on the roof

weather: in
  sunny | in the sun / windy | in the wind / rainy | in the rain / snowy | in the snow / foggy | in the fog
  misty | in the mist / frosty | in the frost / icy | on the ice / cold | in the cold / hot | in the heat
time:
  morning / evening / day / dawn

mood: did
  happy | sang a song / sad | cried a bit / sleepy | took a nap / hungry | ate some soup / cold | lit a fire
  thirsty | drank milk / bored | told a joke / muddy | had a bath / cross | kicked a stone / shy | hid away

family:
  mother / father / sister / brother / aunt / uncle
food:
  bread / cheese / honey / soup / jam / cake / tea / corn
tool:
  rope / net / ladder / stick / hook / pole
number:
  seven / ten / twenty / fifty / ninety
said:
  said / cried / called / laughed / sang / yelled
went:
  walked / ran / raced / skipped / hiked / rode / jogged / marched
found:
  found / saw / spied / spotted
lost:
  lost / dropped / left
soon:
  Soon / Then / Now / Later
cheer:
  Hooray / Well done / Bravo / Good job

when:
  One [w=weather] [z=time],
  On a(n) [w=weather] [z=time],
  Late one [w=weather] [z=time],
  Early one [w=weather] [z=time],
  One very [w=weather] [z=time],
  That [w=weather] [z=time],
  It was a(n) [w=weather] [z=time].
  The [z=time] was [w=weather].

thanks:
  "Thank you, [b]!" [said] [a].
  "How kind of you!" [said] [a].
  [a] gave [b] a big hug.
home:
  Then [a] went home [w.in].
  [a] told [a.his] [family] about it.
  What a fine [z] it was!
  That night, [a] dreamed of [food].
friends:
  They danced [w.in].
  They shared [food] and [food].
  They had a fine [z]!
  [a] and [b] were friends now.
  [b] took [a] home for [food].
  [b] told [b.his] [family] about it.

seek:
  [a] looked [s] and [found] [b], then [t] and [found] [d].
  [a] looked [t] and [found] [d], then [s] and [found] [b].
share:
  [a] kept the [x] and [b] took the [y]. [soon] [a] [x.did] the [x] and [b] [y.did] the [y].
  [a] kept the [y] and [b] took the [x]. [soon] [a] [y.did] the [y] and [b] [x.did] the [x].
finish:
  [a] was first and [b] was last. "[cheer], [a]!" [said] [d]. So [a] got the [x] and [x.did] it [p.at].
  [b] was first and [d] was last. "[cheer], [b]!" [said] [a]. So [b] got the [x] and [x.did] it [p.at].
  [d] was first and [a] was last. "[cheer], [d]!" [said] [b]. So [d] got the [x] and [x.did] it [p.at].
ask:
  "Where is the [x]?" asked [b]. "It is [s]," [said] [a]. [soon] [b] [x.did] the [c] [x] [w.in].
  "Where is the [y]?" asked [b]. "It is [t]," [said] [a]. [soon] [b] [y.did] the [e] [y] [w.in].

story:
  [when] [a=name] [went] to the [p=place] and [lost] a(n) [c=look] [x=thing]. [b=name] [found] it
    [s=spot]. "Is this yours, [a]?" asked [b]. [thanks] [soon] [a] [x.did] the [c] [x] [w.in].
  [when] [a=name] had a(n) [c=look] [x=thing] and [b=name] had a(n) [e=look] [y=thing]. They met [spot]
    and traded. [soon] [a] [y.did] the [e] [y] and [b] [x.did] the [c] [x]. [friends]
  [when] [a=name] and [b=name] [went] to the [p=place]. There a(n) [sort] [v=p.home] sat [spot] and
    [v.said]. "It wants [v.food]," [said] [b]. So [a] ran home and brought the [v] some [v.food].
    [friends]
  [when] [a=name], [b=name] and [d=name] played. [b] hid [s=spot], [d] hid [t=spot] and [a] counted to
    [number]. [seek] [friends]
  [when] [a=name] gave a(n) [c=look] [x=thing] to [b=name]. [b] gave it to [d=name], and [d] [lost] it
    [s=spot]. "Who has my [x]?" asked [a]. "Ask [d]," [said] [b]. "It is [s]," [said] [d]. [soon] [a]
    [x.did] the [c] [x].
  [when] [a=name], [b=name] and [d=name] ran a race to the [p=place]. The prize was a(n) [c=look]
    [x=thing]. [finish]
  [when] [a=name] [went] to town and bought a(n) [c=look] [x=thing] and some [f=food]. [A.he] gave the [x]
    to [a.his] [k=family] and the [f] to [b=name]. [soon] [a.his] [k] [x.did] the [x] and [b] ate the [f].
    [home]
  [when] [a=name], [b=name] and [d=name] [went] home. [a] was [m=mood], [b] was [o=mood] and [d] was
    [r=mood]. So [a] [m.did], [b] [o.did] and [d] [r.did]. [friends]
  [when] [a=name] [went] to the [p=place] and [found] a(n) [sort] [v=p.home] stuck [spot]. [b=name] came
    with a [tool]. [soon] the [v] was free! It [v.said] and gave [b] a(n) [c=look] [x=thing]. [b] [x.did]
    the [x] [w.in].
  [when] [a=name] and [b=name] had a map. "Look [s=spot]," it said. They [went] there and [found]
    a(n) [c=look] [x=thing] and a(n) [e=look] [y=thing]! [share]
  [a=name] had a [q=pet] named [n=pet name]. [when] [n] ran away. [a] looked [spot] and [spot]. No [n]!
    Then [b=name] [found] a [q] [spot]. It was [n], and [n] [q.said]. [thanks]
  [when] [a=name] wrote: "Dear [b=name], bring the [c=look] [x=thing] to the [p=place]. Love, [a]." [b]
    [found] it [s=spot] and [went] to the [p]. There [a] and [b] [x.did] the [c] [x]. [friends]
  [when] [a=name] fell asleep at the [p=place]. In a dream, a(n) [c=look] [v=p.home] [found] a(n) [e=look]
    [x=thing] and [x.did] it. [a] woke up, and the [x] lay [spot]! "The [c] [v] was here!" [said] [a].
  [when] [a=name] hid a(n) [c=look] [x=thing] [s=spot] and a(n) [e=look] [y=thing] [t=spot]. [b=name] came
    by. [ask]
  [when] [a=name] asked [a.his] [k=family] for a(n) [c=look] [x=thing]. "First take some [f=food] to
    [b=name]," [said] the [k]. So [a] gave [b] the [f] [spot]. Then [a] got the [c] [x] and [x.did] it
    [w.in].
)";

// First line of the file of nats, as scanf reads it; the seed follows for people.
const char* const header = "# -log P of each story in nats; text: %zu bytes, %zu stories";

std::string nats_path(const std::string& text_path) { return text_path + ".nats"; }

}  // namespace

const Grammar& story_grammar() {
  static const Grammar grammar(source);
  return grammar;
}

Story tell_story(uint64_t seed, uint64_t index) {
  const uint64_t key = rng::key({rng::word("story"), seed, index});
  uint64_t choice = 0;
  Story story{"", 0};
  const auto choose = [&](size_t n) { return rng::below(n, key, choice++); };
  story.text = story_grammar().tell("story", choose, story.nats);
  story.text += '\n';
  return story;
}

std::optional<double> story_nats(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::vector<double> derivations = story_grammar().read("story", text);
  if (derivations.empty()) return std::nullopt;
  return derivations.front();
}

CorpusSummary write_corpus(const std::string& path, size_t bytes, uint64_t seed,
                           const std::function<void(double fraction)>& progress) {
  namespace fs = std::filesystem;
  for (const std::string& target : {path, nats_path(path)}) {
    std::error_code ignored;
    const fs::file_status status = fs::status(target, ignored);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      throw std::runtime_error("cannot write " + target + ": it is not a regular file; choose another name");
    }
  }

  WholeFile text(path), floor(nats_path(path));
  CorpusSummary summary;
  std::string numbers;
  // A story told before is skipped, so that no validation story occurs in training. Two stories are alike
  // with probability 3e-13 (the mean of P over 500,000 stories), so one corpus of 4 MB in 16,000 would hold
  // a repeated one: the probabilities are what they were.
  std::unordered_set<uint64_t> told;
  for (uint64_t index = 0;; ++index) {
    const Story story = tell_story(seed, index);
    if (!told.insert(rng::word(story.text)).second) continue;
    if (summary.bytes + story.text.size() > bytes) break;
    text.write(story.text);
    char number[32];
    std::snprintf(number, sizeof number, "%.6f\n", story.nats);
    numbers += number;
    ++summary.stories;
    summary.bytes += story.text.size();
    summary.nats += story.nats;
    if (progress && summary.stories % 256 == 0) {
      progress(static_cast<double>(summary.bytes) / static_cast<double>(bytes));
    }
  }
  if (summary.stories == 0) {
    throw std::runtime_error("cannot write " + path + ": " + std::to_string(bytes) +
                             " bytes hold no story; ask for 256 or more");
  }
  floor.write("# -log P of each story in nats; text: " + std::to_string(summary.bytes) + " bytes, " +
              std::to_string(summary.stories) + " stories, seed " + std::to_string(seed) + "\n");
  floor.write(numbers);

  // An older floor goes first: whenever the power fails, no text stands beside the floor of another.
  text.finish();
  floor.finish();
  if (::unlink(nats_path(path).c_str()) != 0 && errno != ENOENT) fail_file("replace", nats_path(path), errno);
  text.publish();
  floor.publish();
  if (progress) progress(1);
  return summary;
}

std::vector<double> read_nats(const std::string& text_path, size_t text_bytes, size_t stories) {
  const std::string path = nats_path(text_path);
  if (!std::filesystem::exists(path)) return {};
  std::ifstream file(path);
  std::string line;
  size_t said_bytes = 0, said_stories = 0;
  if (!std::getline(file, line) || std::sscanf(line.c_str(), header, &said_bytes, &said_stories) != 2) {
    throw std::runtime_error(path + " holds no -log P of stories; delete it to train without a floor");
  }
  std::vector<double> nats;
  while (std::getline(file, line)) {
    char* end = nullptr;
    const double value = std::strtod(line.c_str(), &end);
    if (line.empty() || *end != '\0' || !(value >= 0) || std::isinf(value)) {
      throw std::runtime_error(path + ": line " + std::to_string(nats.size() + 2) +
                               " is not a number of nats: " + line.substr(0, 40));
    }
    nats.push_back(value);
  }
  if (said_bytes != text_bytes || said_stories != stories || nats.size() != stories) {
    throw std::runtime_error(path + " belongs to another text (" + std::to_string(said_bytes) + " bytes, " +
                             std::to_string(said_stories) + " stories, " + std::to_string(nats.size()) +
                             " numbers; " + text_path + " has " + std::to_string(text_bytes) + " bytes, " +
                             std::to_string(stories) + " stories); delete it or write the corpus anew");
  }
  return nats;
}

void run_corpus(const CorpusOptions& options) {
  const size_t bytes = parse_bytes(options.bytes);
  if (!options.force && std::filesystem::exists(options.out))
    throw std::runtime_error(options.out + " is there already: --force replaces it");
  const Stopwatch clock;
  const CorpusSummary summary = write_corpus(options.out, bytes, options.seed);
  std::printf("%s: %s stories, %s, floor %.4f nats/byte (%.1f s)\n", options.out.c_str(),
              format_count(static_cast<double>(summary.stories)).c_str(), format_bytes(summary.bytes).c_str(),
              summary.nats / static_cast<double>(summary.bytes), clock.seconds());
}
