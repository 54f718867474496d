#include "story_grammars.hpp"

// Letters: a b d people, c e looks, x y things, p place, s t spots, n where, v animal, w weather.
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
  [when] [a=name] lost a(n) [c=look] [x=thing]. [b=name] and [d=name] found the [c] [x] [s=spot]. "Is this your [x], [a]?"
    asked [d]. "Thank you, [d]! Thank you, [b]!" said [a]. Then [a] [x.did] the [c] [x].
  [when] [a=name] hid a(n) [c=look] [x=thing] [s=spot] and a(n) [e=look] [y=thing] [t=spot]. [b=name] looked [s] and
    [x.did] the [c] [x]. Then [b] looked [t] and [y.did] the [e] [y].
  [when] [a=name], [b=name] and [d=name] went to the [p=place]. They met a(n) [sort] [v=p.home] [spot]. The [v] [v.said].
    "It wants [v.food]," said [d]. So [b] gave the [v] some [v.food], and [a] sang.
  [when] [a=name], [b=name] and [d=name] played. [a] hid [s=spot], and [b] hid [t=spot]. [d] looked [s] and found [a]. Then
    [d] looked [t] and found [b]. "Well done, [d]!" said [a] and [b].
  [when] [a=name] gave a(n) [c=look] [x=thing] to [b=name]. [b] gave the [x] to [d=name]. [d] left the [x] [s=spot]. "Where
    is my [c] [x]?" asked [a]. "Look [s]," said [d]. So [a] looked [s] and [x.did] the [c] [x].
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
  [when] [a=girl] had a(n) [c=color] [x=toy] and [b=boy] had a(n) [e=look] [y=tool]. [b] [x.did] the [x], and [a] [y.did] the
    [y] [spot].
  [when] [a=girl] lost a(n) [c=color] [x=toy]. [b=boy] found it [n=near] a(n) [e=look] [y=tool]. "My [c] [x]!" said [a], and
    [b] [y.did] the [y].
  [when] [a=girl] hid a(n) [c=color] [x=toy] [s=spot] and a(n) [e=look] [y=tool] [t=place]. [b=boy] looked [s] and [x.did] the
    [c] [x].
  [when] [a=girl] and [b=boy] met a(n) [e=look] [v=animal]. The [v] [v.said], so [a] gave it [v.food] from a(n) [c=color]
    [x=toy], and [b] [x.did] the [x].
  [when] [a=girl] gave a(n) [c=color] [x=toy] to [b=boy]. "Where is the [x]?" asked [a]. "It is [n=near] the [e=look] [y=tool],"
    said [b] and [y.did] the [y].
)"}};
