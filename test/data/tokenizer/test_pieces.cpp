// SentencePiece tokenizers, compared with sentencepiece (python_ref/pieces.py, python_ref/check_pieces.py) and with
// plain loops.

#include "data/tokenizer/models/pieces.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/host/progress.hpp"
#include "data/strings/utf8.hpp"
#include "data/tokenizer/files/piece_files.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/kernels/random.hpp"
#include "message.hpp"
#include "program.hpp"
#include "shared.hpp"
#include "small_run.hpp"

using nlohmann::json;

namespace {

const std::string kFolder = "test/reference/pieces/";

std::string reference(const std::string& name) { return read_file(kFolder + name); }

// The 256 byte tokens at 3 to 258, as in Llama 2, and these pieces with falling scores.
PieceTables tables_with(const std::vector<std::string>& pieces) {
  PieceTables tables;
  tables.pieces = {{"<unk>", 0, PieceType::unknown}, {"<s>", 0, PieceType::control}, {"</s>", 0, PieceType::control}};
  tables.begin = 1, tables.end = 2;
  constexpr const char* kDigits = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b)
    tables.pieces.push_back({std::string("<0x") + kDigits[b / 16] + kDigits[b % 16] + ">", 0, PieceType::byte});
  for (const std::string& piece : pieces) tables.pieces.push_back({piece, 259.f - float(tables.pieces.size())});
  return tables;
}

void check_equal(const Pieces& a, const Pieces& b) {
  REQUIRE(a.vocabulary() == b.vocabulary());
  for (int i = 0; i < a.vocabulary(); ++i) {
    const Piece &x = a.tables().pieces[i], &y = b.tables().pieces[i];
    CHECK((x.text == y.text && x.score == y.score && x.type == y.type));
  }
  CHECK(a.tables().dummy_prefix == b.tables().dummy_prefix);
  CHECK(a.tables().begin == b.tables().begin);
  CHECK(a.tables().end == b.tables().end);
}

std::string random_text(size_t count, const std::vector<std::string>& parts, uint64_t seed) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += parts[(rng::key({seed, i}) >> 8) % parts.size()];
  return text;
}

// The definition in plain loops over strings, as in llama2.c.
std::vector<uint32_t> encode_plainly(const Pieces& pieces, std::string_view text) {
  if (text.empty()) return {};
  std::map<std::string, uint32_t> tokens;
  for (int t = 0; t < pieces.vocabulary(); ++t)
    if (pieces.tables().pieces[t].type == PieceType::normal) tokens[pieces.bytes_of(t)] = t;
  std::vector<std::string> symbols;
  if (pieces.tables().dummy_prefix) symbols.push_back(" ");
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    if (!next_code_point(text, at)) ++at;
    const std::string symbol(text.substr(start, at - start));
    symbols.push_back(symbol == "\u2581" ? " " : symbol);
  }
  while (true) {
    size_t best = symbols.size();
    float score = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = tokens.find(symbols[i] + symbols[i + 1]);
      if (found == tokens.end()) continue;
      const float here = pieces.tables().pieces[found->second].score;
      if (best == symbols.size() || here > score) best = i, score = here;
    }
    if (best == symbols.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + best + 1);
  }
  std::vector<uint32_t> result;
  for (const std::string& symbol : symbols) {
    if (const auto found = tokens.find(symbol); found != tokens.end()) result.push_back(found->second);
    else for (const unsigned char byte : symbol) result.push_back(3 + byte);
  }
  return result;
}

std::string refusal_of_model(const std::string& bytes) {
  return message_of<std::runtime_error>([&] { pieces_from_model(bytes); });
}
std::string refusal_of_tables(const PieceTables& tables) {
  return message_of<std::runtime_error>([&] { Pieces pieces(tables); });
}

// A protobuf message with bytes in field `number`; a value; a piece of a model.
std::string field(int number, const std::string& bytes) {
  std::string length;
  for (size_t n = bytes.size(); n > 0 || length.empty(); n >>= 7)
    length += static_cast<char>((n & 127) | (n > 127) << 7);
  return static_cast<char>(number << 3 | 2) + length + bytes;
}
std::string value(int number, int x) {
  std::string key(1, static_cast<char>((number << 3 & 127) | (number > 15) << 7));
  if (number > 15) key += static_cast<char>(number >> 4);
  return key + static_cast<char>(x);
}
std::string piece(const std::string& text, int type) { return field(1, field(1, text) + value(3, type)); }

const std::string kTrainer = field(2, value(3, 2) + value(35, 1));
const std::string kNormalizer = field(3, value(4, 0));

std::string model_of(const PieceTables& tables, const std::string& trainer, const std::string& normalizer) {
  constexpr int kTypes[] = {1, 2, 3, 6};
  std::string model;
  for (const Piece& p : tables.pieces) model += piece(p.text, kTypes[static_cast<int>(p.type)]);
  return model + trainer + normalizer;
}

}  // namespace

TEST_CASE("encoding gives the tokens of sentencepiece", "[pieces]") {
  const json expected = parse_json(reference("hard.tokens.json"));
  const std::string text = reference("hard.txt");
  for (const std::string name : {"llama2", "across_spaces"}) {
    INFO(name);
    const Pieces pieces = read_pieces(kFolder + name + ".model");
    CHECK(pieces.vocabulary() == 440);
    const auto tokens = pieces.encode(text);
    CHECK(tokens == expected[name].get<std::vector<uint32_t>>());
    std::string with_spaces = text;
    for (size_t at; (at = with_spaces.find("\u2581")) != with_spaces.npos;) with_spaces.replace(at, 3, " ");
    CHECK(pieces.decode(tokens) == with_spaces);
  }
}

TEST_CASE("pieces of every kind of text are merged by score, leftmost first", "[pieces]") {
  std::vector<Pieces> all;
  for (const char* name : {"llama2.model", "across_spaces.model"}) all.push_back(read_pieces(kFolder + name));
  // "x" and "é" are in pieces but are not pieces themselves; "b" is in none; "ab" and "ba" have the same score.
  PieceTables tables =
      tables_with({"\u2581", "a", "b", "ab", "ba", "x\u00e9", "aab", "a\u2581", "\u2581\u2581", "abab"});
  tables.pieces[263].score = tables.pieces[262].score;
  all.emplace_back(tables);
  const std::vector<std::string> parts = {"a", "b", "a", "b", " ", " ", "x", "\u00e9", "\u2581", "\xc3", "\xff", "\n",
                                          "the"};
  for (const Pieces& pieces : all)
    for (size_t length = 0; length < 200; ++length) {
      const std::string text = random_text(length, parts, length);
      CHECK(pieces.encode(text) == encode_plainly(pieces, text));
    }
}

TEST_CASE("pieces encode any bytes, and decoding gives them back", "[pieces]") {
  const Pieces pieces = read_pieces(kFolder + "llama2.model");
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string noise = random_text(3000, bytes, seed);
    CHECK(pieces.decode(pieces.encode(noise)) == noise);
  }
  CHECK(pieces.encode("").empty());
  CHECK(pieces.decode(pieces.encode(" ")) == " ");
}

// Unigram models, merges without byte fallback, rules of normalization, user-defined and unused pieces.
TEST_CASE("models of every kind give the tokens of sentencepiece, and decode as there", "[pieces]") {
  const json other = parse_json(reference("other.json"));
  const std::string text = other["text"];
  for (const auto& [name, known] : other["models"].items()) {
    INFO(name);
    const Tokenizer tokenizer = read_tokenizer(kFolder + name + ".model");
    const std::vector<uint32_t> tokens = tokenizer.encode(text);
    CHECK(tokens == parse_json(known["tokens"].get<std::string>()).get<std::vector<uint32_t>>());
    if (!contains(known["decoded"], "\ufffd")) CHECK(tokenizer.decode(tokens) == known["decoded"].get<std::string>());
    const Tokenizer stored = tokenizer_from_json(parse_json(to_text(to_json(tokenizer))));
    CHECK(stored.encode(text) == tokens);
    CHECK(stored.decode(tokens) == tokenizer.decode(tokens));
  }
  CHECK(other["models"].size() == 7);
}

TEST_CASE("a text for a model that normalizes is cut where its tokens do not change", "[pieces][long]") {
  const std::vector<std::string> parts = {" ", "  ", "the", "a", "\u2581", "\u00e9", "\n", "\ufb01", "e\u0301",
                                          "\u00a0", "banana", "\ufeff", "x", " norm"};
  size_t cuts = 0;
  for (const char* name : {"unigram", "unigram_bytes", "unigram_user", "merges", "merges_user", "merges_unused"}) {
    INFO(name);
    const Tokenizer tokenizer = read_tokenizer(kFolder + name + ".model");
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const std::string text = random_text(40, parts, seed);
      std::vector<uint32_t> tokens;
      const auto pieces = tokenizer.cut(text, 7);
      cuts += pieces.size() - 1;
      for (const std::string_view part : pieces)
        for (const uint32_t token : tokenizer.encode(part)) tokens.push_back(token);
      INFO(text);
      CHECK(tokens == tokenizer.encode(text));
    }
  }
  CHECK(cuts > 1000);
}

TEST_CASE("user-defined pieces are found anywhere, and do not merge", "[pieces]") {
  PieceTables tables = tables_with({"\u2581", "a", "b", "ab", "abc", "c", "bc"});
  tables.pieces.push_back({"bc", 0, PieceType::user_defined});
  tables.pieces.erase(tables.pieces.begin() + 265);  // the normal one
  const Pieces pieces(tables);
  CHECK(pieces.encode("abc") == std::vector<uint32_t>{259, 260, 265});
  CHECK(pieces.decode(pieces.encode("abc ab")) == "abc ab");
  tables.pieces.push_back({"\n", 0, PieceType::user_defined});
  CHECK(Pieces(tables).token_of_byte('\n') == 266);
  CHECK(pieces.token_of_byte('\n') == 3 + '\n');
}

TEST_CASE("special tokens are not found in text, and say nothing", "[pieces]") {
  const Pieces pieces = read_pieces(kFolder + "llama2.model");
  for (const std::string text : {"<s>", "</s>", "<unk>", "<0x41>", "\n<s>\n"}) {
    const auto tokens = pieces.encode(text);
    CHECK(tokens.size() > 2);
    CHECK(std::none_of(tokens.begin(), tokens.end(), [](uint32_t t) { return t < 3 || t == 3 + 0x41; }));
    CHECK(pieces.decode(tokens) == text);
  }
  CHECK(pieces.bytes_of(0) == " \u2047 ");
  CHECK(pieces.bytes_of(1) == "");
  CHECK(pieces.bytes_of(3 + 0x41) == "A");
  CHECK(pieces.tables().begin == 1);
  CHECK(pieces.tables().end == 2);
}

TEST_CASE("a text in parts has the tokens of the whole", "[pieces]") {
  const Pieces pieces = read_pieces(kFolder + "llama2.model");
  const std::string hard = reference("hard.txt"), line = random_text(300000, {"a", "the", "\u00e9"}, 1);
  std::string text;
  while (text.size() < (1 << 20)) text += hard + line.substr(text.size() % 1000, 200);
  text += line + "  " + hard;
  PieceTables tables = pieces.tables();
  const size_t the = std::find_if(tables.pieces.begin(), tables.pieces.end(),
                                  [](const Piece& p) { return p.text == "\u2581the"; }) - tables.pieces.begin();
  REQUIRE(the < tables.pieces.size());
  tables.pieces.push_back({"q\u2581q\u2581q", -1e6f});  // never made, but forbids to cut before spaces
  const auto tokens = pieces.encode(text);
  CHECK(tokens == Pieces(tables).encode(text));
  CHECK(std::count(tokens.begin(), tokens.end(), the) > 100);
}

TEST_CASE("parts of a text are cut where its tokens do not depend on the cut", "[pieces][long]") {
  const Tokenizer whole = read_tokenizer(kFolder + "llama2.model");
  PieceTables tables = whole.pieces()->tables();
  tables.dummy_prefix = false;
  const Tokenizer plain = Tokenizer::pieces(Pieces(tables)), crossing = read_tokenizer(kFolder + "across_spaces.model");
  const auto check_parts = [](const Tokenizer& tokenizer, const std::string& text, size_t bytes) {
    std::vector<uint32_t> tokens;
    const auto parts = tokenizer.cut(text, bytes);
    for (const std::string_view part : parts)
      for (const uint32_t token : tokenizer.encode(part)) tokens.push_back(token);
    CHECK(tokens == tokenizer.encode(text));
    return parts.size();
  };
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = random_text(60, {" ", "  ", "the", "a", "\u2581", "\u00e9", "\n", "\xff", " no"}, seed);
    for (const Tokenizer* tokenizer : {&whole, &plain, &crossing})
      for (const size_t bytes : {1, 2, 7, 30}) check_parts(*tokenizer, text, bytes);
  }
  const std::string text = reference("hard.txt");
  CHECK(check_parts(whole, text, 100) > text.size() / 200);
  CHECK(check_parts(plain, text, 100) > text.size() / 200);
  CHECK(check_parts(crossing, text, 100) == 1);
  for (const char* short_text : {"", " ", "a ", "a  ", " a", "a b "}) check_parts(whole, short_text, 1);
}

TEST_CASE("pieces encode a megabyte without a space in seconds", "[pieces][long]") {
  const Pieces pieces = read_pieces(kFolder + "llama2.model");
  const Stopwatch clock;
  for (const std::vector<std::string>& parts :
       std::vector<std::vector<std::string>>{{"a"}, {"t", "h", "e", "n", "o", "r", "m"}, {" "}, {"\xff"}, {"\u65e5"}}) {
    const std::string text = random_text(1000000, parts, 1);
    CHECK(pieces.decode(pieces.encode(text)) == text);
  }
  CHECK(clock.seconds() < 120);  // would take hours if each merge scanned the whole line
}

TEST_CASE("a tokenizer.bin of llama2.c is written and read", "[pieces]") {
  const Folder f;
  const Pieces pieces = read_pieces(kFolder + "llama2.model");
  f.write("tokenizer.bin", to_llama2c(pieces));
  check_equal(read_pieces(f.path("tokenizer.bin")), pieces);
  const auto refusal = [](const Pieces& p) {
    return message_of<std::invalid_argument>([&] { to_llama2c(p); });
  };
  CHECK(contains(refusal(read_pieces(kFolder + "across_spaces.model")), "llama2.c puts a space before the text"));
  CHECK(contains(refusal(read_pieces(kFolder + "unigram.model")), "is a unigram model"));
  CHECK(contains(refusal(read_pieces(kFolder + "merges.model")), "llama2.c does not normalize the text"));
  PieceTables tables = pieces.tables();
  std::swap(tables.pieces[3], tables.pieces[4]);
  CHECK(contains(refusal(Pieces(tables)), "no place for the token '<0x01>' at number 3"));
  tables = pieces.tables();
  std::swap(tables.pieces[1], tables.pieces[300]);
  CHECK(contains(refusal(Pieces(tables)), "at number 1"));
}

TEST_CASE("pieces survive a checkpoint, and train and generate", "[pieces]") {
  const Tokenizer tokenizer = read_tokenizer(kFolder + "llama2.model");
  REQUIRE(tokenizer.pieces());
  check_equal(*tokenizer_from_json(to_json(tokenizer)).pieces(), *tokenizer.pieces());
  CHECK(tokenizer.decode(tokenizer.newline()) == "\n");
  const Folder f;
  f.write("tokenizer.bin", to_llama2c(*tokenizer.pieces()));
  f.write("my.txt", reference("hard.txt"));
  check_equal(*read_tokenizer(f.path(".")).pieces(), *tokenizer.pieces());
  const Outcome trained = f.run("train my.txt --tokenizer tokenizer.bin --steps 2 --out run" + kTiny);
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  const Outcome sampled = f.run("sample run --prompt the --length 5");
  CHECK(sampled.out.starts_with("the"));  // without the dummy prefix
}

TEST_CASE("models that would tokenize differently are refused by name", "[pieces]") {
  const PieceTables tables = tables_with({"\u2581", "a"});
  const auto with = [&](const std::string& trainer, const std::string& normalizer) {
    return refusal_of_model(model_of(tables, trainer, normalizer));
  };
  CHECK(with(kTrainer, kNormalizer) == "");
  for (const auto& [trainer, normalizer] : {std::pair{std::string(), kNormalizer}, {kTrainer, std::string()}})
    CHECK(with(trainer, normalizer) == "it has no trainer_spec or normalizer_spec: it is cut short");
  for (const auto& [type, name] : {std::pair{3, "word"}, std::pair{4, "char"}, std::pair{9, "9"}})
    CHECK(with(field(2, value(3, type) + value(35, 1)), kNormalizer) ==
          "its model_type is " + std::string(name) + ", and train_gpt reads bpe and unigram only");
  CHECK(with(field(2, value(3, 2)), kNormalizer) == "it has pieces for bytes, but no byte fallback");
  CHECK(with(field(2, value(3, 2) + value(35, 1) + value(24, 1)), kNormalizer) ==
        "treat_whitespace_as_suffix is not supported");
  CHECK(with(kTrainer, field(3, value(4, 0) + value(5, 0))) == "escape_whitespaces = false is not supported");
  CHECK(with(kTrainer, field(3, field(1, "nmt_nfkc") + field(2, "rules") + value(4, 0))) ==
        "its precompiled_charsmap is damaged: it has no tree");
  CHECK(with(kTrainer, kNormalizer + field(5, field(1, "back") + field(2, "rules"))) ==
        "the denormalizer 'back', which changes decoded text, is not supported");
  CHECK(with(kTrainer, kNormalizer + piece("odd", 7)) == "'odd' has the unknown type 7");
  CHECK(with(kTrainer, kNormalizer + piece("a b", 4)) == "'a b' has a space, which is U+2581 in a piece");
}

TEST_CASE("tables that cannot be used are refused", "[pieces]") {
  CHECK(refusal_of_tables(tables_with({"\u2581", "a"})) == "");
  for (const char* without : {"a", "\u2581a", "\u2581\u2581"})
    CHECK(refusal_of_tables(tables_with({without})) == "no piece is a space alone (U+2581)");
  CHECK(refusal_of_tables(tables_with({"\u2581", "a", "a"})) == "two tokens are 'a'");
  CHECK(refusal_of_tables(tables_with({"\u2581", "ab", "ab"})) == "two tokens are 'ab'");
  CHECK(refusal_of_tables(tables_with({"\u2581", ""})) == "one of its pieces is empty");
  CHECK(refusal_of_tables(tables_with({"\u2581", "\xff"})) == "'\\xff' is not UTF-8");
  CHECK(contains(refusal_of_tables(tables_with({"\u2581", "a b"})), "'a b' has a space"));
  CHECK(contains(refusal_of_tables(tables_with({"\u2581", std::string(513, 'a')})), "is longer than 512 bytes"));
  PieceTables tables = tables_with({"\u2581", "a"});
  tables.pieces[259].score = std::numeric_limits<float>::quiet_NaN();
  CHECK(contains(refusal_of_tables(tables), "is not finite"));
  tables = tables_with({"\u2581", "a"});
  tables.pieces[3].text = "<0x0g>";
  CHECK(refusal_of_tables(tables) == "'<0x0g>' is not a byte");
  tables.pieces[3].text = "<0x01>";
  CHECK(refusal_of_tables(tables) == "two tokens are '<0x01>'");
  tables.pieces[3].type = PieceType::control;
  CHECK(refusal_of_tables(tables) == "it has no token for byte 0, and needs byte fallback");
  tables.byte_fallback = false;
  for (Piece& piece : tables.pieces)
    if (piece.type != PieceType::normal) piece.type = PieceType::control;
  CHECK(refusal_of_tables(tables) == "it has neither byte fallback nor an unknown token");
  tables = tables_with({"\u2581", "a"});
  tables.end = 261;
  CHECK(contains(refusal_of_tables(tables), "special token 261"));
}

TEST_CASE("a damaged tokenizer file is refused in one line that names it", "[pieces]") {
  const Folder f;
  const auto refusal = [&](const std::string& bytes) {
    f.write("tok", bytes);
    const std::string message = message_of<std::runtime_error>([&] { read_pieces(f.path("tok")); });
    CHECK(count_lines(message) == 0);
    return message;
  };
  const Pieces pieces = read_pieces(kFolder + "llama2.model");
  const std::string model = reference("llama2.model"), bin = to_llama2c(pieces);
  size_t boundary = 4;  // a tokenizer.bin has no count, so it may end after any piece once all bytes are there
  for (int t = 0; t < 260; ++t) {
    uint32_t length;
    std::memcpy(&length, bin.data() + boundary + 4, 4);
    boundary += 8 + length;
    if (t < 258) CHECK(contains(refusal(bin.substr(0, boundary)), "tok cannot be used as a tokenizer: "));
  }
  for (size_t size = boundary + 1; size < boundary + 9; ++size)
    CHECK(contains(refusal(bin.substr(0, size)), "cut short"));
  for (size_t size = 0; size < model.size(); size += size < 100 ? 1 : 37)
    CHECK(contains(refusal(model.substr(0, size)), "tok cannot be used as a tokenizer: "));
  for (size_t size = 0; size < 100; ++size)
    CHECK(contains(refusal(bin.substr(0, size)), "tok cannot be used as a tokenizer: "));

  const auto changed = [](std::string bytes, size_t at, const std::string& to) {
    return bytes.replace(at, to.size(), to);
  };
  CHECK(contains(refusal(changed(bin, 8, "\xff\xff\xff\xff")), "piece 0 has 4294967295 bytes"));
  CHECK(contains(refusal(changed(bin, bin.find("<0x00>"), "<0x07>")), "token 3 is '<0x07>' instead of <0x00>"));
  CHECK(contains(refusal(std::string(20, '\xff')), "piece 0 has 4294967295 bytes"));
  CHECK(contains(refusal("\x0a\x7f\x0a" + std::string(30, 'a')), "cut short"));
  CHECK(contains(refusal("\x0a\x09\x0a\xff\xff\xff\xff\xff\xff\xff\xff"), "cut short"));
  CHECK(contains(refusal("\x0a\x0c\x0a" + std::string(10, '\xff') + "\x01"), "more than 64 bits"));
  CHECK(contains(refusal("\x0a\x02\x0a\x63\x0b"), "cut short"));
  for (uint64_t seed = 0; seed < 600; ++seed) {  // must throw or succeed
    std::string damaged = seed % 2 ? model : bin;
    damaged[rng::key({seed, 1}) % damaged.size()] = static_cast<char>(rng::key({seed, 2}) >> 8);
    refusal(damaged);
  }
}

TEST_CASE("Llama 2's two files are the same tokenizer, to the byte", "[pieces]") {
  const std::string model = shared_file("llama2c/tokenizer.model"), bin = shared_file("llama2c/tokenizer.bin");
  if (model.empty() || bin.empty()) return skip_test("no llama2c/tokenizer.model and tokenizer.bin");
  const Pieces pieces = read_pieces(model);
  CHECK(pieces.vocabulary() == 32000);
  CHECK(to_llama2c(pieces) == read_file(bin));
  check_equal(pieces, read_pieces(bin));
}

TEST_CASE("Llama 2 tokenizes tiny Shakespeare as sentencepiece does", "[pieces]") {
  const std::string model = shared_file("llama2c/tokenizer.model"), text = shared_file("tinyshakespeare.txt");
  if (model.empty() || text.empty()) return skip_test("no llama2c/tokenizer.model and tinyshakespeare.txt");
  uint64_t hash = 0;
  const std::vector<uint32_t> tokens = read_pieces(model).encode(read_file(text));
  for (const uint32_t token : tokens) {
    hash = (hash ^ token) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  CHECK(tokens.size() == 368633);
  CHECK(hash == 0x6fa94b65422bda29ull);
}

// python_ref/check_pieces.py writes the folder and runs this.
TEST_CASE("texts of a folder have the tokens next to them", "[.pieces_of_folder]") {
  const char *model = std::getenv("PIECES_MODEL"), *folder = std::getenv("PIECES_FOLDER");
  if (!model || !folder) return skip_test("python_ref/check_pieces.py runs it");
  const Pieces pieces = read_pieces(model);
  const bool lossless = pieces.tables().byte_fallback && !pieces.tables().rules && !pieces.tables().removes_spaces;
  size_t bytes = 0, texts = 0, equal = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    const std::string text = read_file(entry.path()), want = read_file(entry.path().parent_path() /
                                                                       (entry.path().stem().string() + ".tokens"));
    const std::vector<uint32_t> tokens = pieces.encode(text);
    std::vector<uint32_t> expected(want.size() / sizeof(uint32_t));
    std::memcpy(expected.data(), want.data(), want.size());
    INFO(entry.path());
    CHECK((tokens == expected));
    std::string back = text;
    if (lossless && back.find("\u2581") == back.npos) CHECK((pieces.decode(tokens) == back));
    bytes += text.size(), texts += 1, equal += tokens == expected;
  }
  std::printf("%zu texts, %zu equal, %.1f MB\n", texts, equal, static_cast<double>(bytes) / 1e6);
  CHECK(texts > 0);
}
