// Documents: where they end, how they are encoded, and how they fill rows.

#include <algorithm>
#include <set>

#include "catch.hpp"
#include "check.hpp"
#include "data/corpus/corpus.hpp"
#include "data/files/json.hpp"
#include "data/run/evaluate.hpp"
#include "data/run/step_inputs.hpp"
#include "data/text/documents.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "message.hpp"
#include "small_run.hpp"

namespace {

std::vector<std::string> documents(const std::string& text, const std::string& how) {
  Text all;
  all.bytes = text;
  all.files.push_back({"a", 0});
  std::vector<std::string> found;
  for (const TextSpan& at : find_documents(all, how)) found.push_back(text.substr(at.begin, at.end - at.begin));
  return found;
}

using Texts = std::vector<std::string>;

Dataset load(const Folder& f, const std::string& file, int context, const DocumentOptions& how = {},
             const std::string& tokenizer = "") {
  TextOptions options;
  static_cast<DocumentOptions&>(options) = how;
  options.data = {f.path(file)};
  options.tokenizer = tokenizer;
  return load_dataset(options, nullptr, context);
}

// The text of the targets of row b, from place `begin` to `end`.
std::string targets_between(const Dataset& data, const RowBatch& rows, int b, int begin, int end) {
  std::string text;
  for (int t = begin; t < end; ++t)
    if (const int token = rows.targets[static_cast<size_t>(b) * rows.T + t]; token != kIgnore)
      text += data.tokenizer.decode(token);
  return text;
}

}  // namespace

TEST_CASE("documents end where --documents says", "[documents]") {
  const std::string text = "one\ntwo\n\n \nthree\nfour\n\n\n";
  CHECK(documents(text, "file") == Texts{text});
  CHECK(documents(text, "line") == Texts{"one", "two", " ", "three", "four"});
  CHECK(documents(text, "paragraph") == Texts{"one\ntwo", "three\nfour"});
  CHECK(documents("a\n<|end|>\nb\n\nc<|end|>", "<|end|>") == Texts{"a", "b\n\nc"});
  CHECK(documents("<|end|><|end|>", "<|end|>").empty());
  CHECK(documents("", "line").empty());
  Text two;  // no document crosses from one file to the next
  two.bytes = "ab";
  two.files = {{"a", 0}, {"b", 1}};
  CHECK(find_documents(two, "line").size() == 2);
  two.name = "2 files";
  CHECK(find_documents(two, "<|end|>").size() == 2);
  CHECK(message_of<std::runtime_error>([&] { require_separator(two, "<|end|>"); }) ==
        "--documents <|end|>: there is no such text in 2 files");
  require_separator(two, "b");
  require_separator(two, "line");
}

TEST_CASE("windows are packed into rows, none lost, none split, and few places are left", "[documents]") {
  std::vector<TokenWindow> windows;
  size_t tokens = 0;
  for (size_t i = 0; i < 1000; ++i) {
    const auto length = static_cast<int>(1 + i * i % 97);
    windows.push_back({1000 * i, length, length});
    tokens += static_cast<size_t>(length);
  }
  const int T = 100;
  const Rows rows = packed_rows(windows, T);
  std::set<size_t> starts;
  for (size_t r = 0; r < rows.size(); ++r) {
    int length = 0;
    for (const TokenWindow& window : rows[r]) {
      length += window.length;
      starts.insert(window.start);
    }
    CHECK(length <= T);
  }
  CHECK(starts.size() == windows.size());
  CHECK(rows.windows().size() == windows.size());
  CHECK(rows.targets() == tokens);
  CHECK(rows.size() <= 1.01 * static_cast<double>(tokens) / T + 1);
  CHECK(packed_rows({}, T).empty());
}

TEST_CASE("each row of a story corpus holds whole stories side by side", "[documents]") {
  const Corpus f;
  const int T = 512, B = 3;
  const Dataset data = load(f, "stories.txt", T);
  CHECK(data.documents == "line");
  CHECK(data.packing == Packing::documents);
  CHECK(data.tokenizer.vocabulary() == 257);
  const RowBatch rows = draw_batch(data, B, T, {1, 4, B}, 0);
  int64_t count = 0, stories = 0;
  for (int b = 0; b < B; ++b) {
    const int* begins = &rows.begins[static_cast<size_t>(b) * T];
    for (int t = 0, end; t < T; t = end) {
      CHECK(begins[t] == t);
      end = static_cast<int>(std::find_if(begins + t, begins + T, [&](int at) { return at != t; }) - begins);
      const int* targets = &rows.targets[static_cast<size_t>(b) * T];
      const auto ignored = std::count(targets + t, targets + end, kIgnore);
      CHECK((ignored == 0 || ignored == end - t));  // the filler is an example of its own
      std::string story = targets_between(data, rows, b, t, end);
      count += static_cast<int64_t>(story.size());
      if (story.empty()) continue;  // the filler at the end
      INFO(story);
      REQUIRE(story.ends_with("<|endoftext|>"));
      story.resize(story.size() - 13);
      CHECK(rows.tokens[static_cast<size_t>(b) * T + t] == data.around.first);
      CHECK(story_nats(story));
      count -= 12;  // the token that ends it counts once
      ++stories;
    }
  }
  CHECK(stories > B);
  CHECK(tokens_before(data, T, {1, 5, B}) == tokens_before(data, T, {1, 4, B}) + count);
}

TEST_CASE("padded rows hold one document, then what does not count", "[documents]") {
  const Folder f;
  f.write("lines.txt", "abc\nde\nf\ngh\n");
  const Dataset data = load(f, "lines.txt", 6, {.documents = "line", .packing = Packing::padded});
  REQUIRE(data.rows.size() == 3);
  const int E = data.around.first;
  const RowBatch rows = fill_rows(data, data.rows, 0, 4, 6);
  CHECK(std::vector<int>(rows.begins.begin(), rows.begins.begin() + 6) == std::vector<int>{0, 0, 0, 0, 4, 4});
  CHECK(std::vector<int>(rows.tokens.begin(), rows.tokens.begin() + 6) == std::vector<int>{E, 'a', 'b', 'c', E, 'a'});
  CHECK(std::vector<int>(rows.targets.begin(), rows.targets.begin() + 6) ==
        std::vector<int>{'a', 'b', 'c', E, kIgnore, kIgnore});
  CHECK(std::count(rows.targets.end() - 6, rows.targets.end(), kIgnore) == 6);  // there are three rows
}

TEST_CASE("a document longer than the context is cut, and the plan says so", "[documents]") {
  const Folder f;
  f.write("lines.txt", "abcdefgh\nab\nab\nab\n");
  const Dataset data = load(f, "lines.txt", 4, {.documents = "line"});
  CHECK(data.notes.at(0) == "1 document longer than the context of 4: each is cut into examples of at most 4 tokens");
  size_t targets = 0;
  for (const TokenWindow& window : data.rows.windows()) {
    CHECK(window.length <= 4);
    targets += static_cast<size_t>(window.targets);
  }
  CHECK(targets == 9 + 3 + 3);
  f.write("last.txt", "ab\nab\nab\nabcdefgh\n");  // the long one is for validation
  CHECK(load(f, "last.txt", 4, {.documents = "line"}).notes.back() == data.notes[0]);
}

TEST_CASE("two tokens around documents stay apart, and one is shared by neighbors", "[documents]") {
  const Folder f;
  f.write("lines.txt", "ab\ncd\nef\n");
  const auto tokens = [&](const std::string& tokenizer) {
    const Dataset data = load(f, "lines.txt", 8, {.documents = "line"}, tokenizer);
    std::vector<int> found;
    data.tokens.for_each(0, data.tokens.size(), [&](uint32_t token) {
      const int t = static_cast<int>(token);
      if (t == data.around.first || t == data.around.last) found.push_back(t);
    });
    return std::pair(found, data.around);
  };
  const auto [shared, byte] = tokens("byte");
  CHECK(shared == std::vector<int>(4, byte.first));
  const auto [apart, llama] = tokens("test/reference/pieces/llama2.model");
  REQUIRE(llama.first != llama.last);
  CHECK(apart == std::vector<int>{llama.first, llama.last, llama.first, llama.last, llama.first, llama.last});
}

TEST_CASE("the loss of documents does not depend on how they are packed", "[documents][long]") {
  const Corpus f;
  const std::string small = " --layers 2 --heads 2 --channels 32 --steps 3 --quiet --val-fraction .2 ";
  REQUIRE(f.run("train stories.txt --packing padded --context 600 --out a" + small).status == 0);
  const TrainedModel trained = load_trained_model(f.path("a/checkpoint.safetensors"));
  const Activations activations = allocate_activations(trained.model.config, 4, 600, false);
  const auto loss = [&](Packing packing) {
    const Dataset data = load(f, "stories.txt", 600, {.packing = packing});
    return evaluate(trained.model, activations, data, 4, 0);
  };
  CHECK(std::abs(loss(Packing::padded) - loss(Packing::documents)) < 1e-5);
}

TEST_CASE("micro-batches of a step are its rows in order, with their examples", "[documents]") {
  const Corpus f;
  TrainOptions o;
  o.config.context = 256, o.batch = 2, o.accumulate = 3;
  const Dataset data = load(f, "stories.txt", o.config.context);
  const MicroBatches batches = micro_batches(data, o, 5);
  REQUIRE(batches.count == o.accumulate);
  int64_t targets = 0;
  for (int micro = 0; micro < batches.count; ++micro) {
    const RowBatch want = draw_batch(data, o.batch, o.config.context, step_rows(o, 5), micro * o.batch);
    const Batch got = batches.batch(micro);
    REQUIRE((got.B == o.batch && got.T == o.config.context));
    CHECK(std::ranges::equal(want.tokens, std::span(got.tokens, want.tokens.size())));
    CHECK(std::ranges::equal(want.targets, std::span(got.targets, want.targets.size())));
    CHECK(std::ranges::equal(want.begins, std::span(got.begins, want.begins.size())));
    targets += std::ranges::count_if(want.targets, [](int target) { return target != kIgnore; });
  }
  CHECK(batches.targets == targets);
}

TEST_CASE("a run of documents resumes with the same bits", "[documents]") {
  const Corpus f;
  const std::string words =
      "train --data stories.txt --schedule constant --layers 1 --heads 2 --channels 16 --batch 2 --quiet ";
  REQUIRE(f.run(words + "--steps 9 --out whole").status == 0);
  REQUIRE(f.run(words + "--steps 5 --out r").status == 0);
  REQUIRE(f.run("train --out r --resume --steps 9 --quiet").status == 0);
  CHECK(same_bits(last_weights(f, "whole"), last_weights(f, "r")));
  CHECK(contains(f.run("train --out r --resume --packing padded").err,
                 "--packing is \"documents\" there and \"padded\" here"));
}

TEST_CASE("of prompts and completions the completions alone are targets", "[documents]") {
  const Folder f;
  f.write("q.jsonl", "{\"prompt\": \"1+1=\", \"completion\": \"2\"}\n\n"
                     "{\"completion\": \"x\", \"prompt\": \"say x:\"}\n"
                     "{\"text\": \"free\"}\n{\"prompt\": \"\", \"completion\": \"z\"}\n");
  const auto targets = [&](LearnedPart learn) {
    TextOptions options;
    options.data = {f.path("q.jsonl")};
    options.val_fraction = 0;
    options.packing = Packing::padded;
    options.learn = learn;
    const Dataset data = load_dataset(options, nullptr, 16);
    Texts texts;
    for (size_t r = 0; r < data.rows.size(); ++r)
      texts.push_back(targets_between(data, fill_rows(data, data.rows, r, 1, 16), 0, 0, 16));
    CHECK(data.rows.targets() == (learn == LearnedPart::all ? 21 : 11));
    return texts;
  };
  const std::string end = "<|endoftext|>";
  CHECK(targets(LearnedPart::completion) == Texts{"2" + end, "x" + end, "free" + end, "z" + end});
  CHECK(targets(LearnedPart::all) == Texts{"1+1=2" + end, "say x:x" + end, "free" + end, "z" + end});
}

TEST_CASE("a document of several parts is encoded by one thread, however long it is", "[documents]") {
  const Folder f;
  const std::string prompt(300000, 'a'), line = "{\"prompt\": \"" + prompt + "\", \"completion\": \"b\"}\n";
  f.write("q.jsonl", line + line);
  const Dataset data = load(f, "q.jsonl", 16, {.packing = Packing::padded});
  CHECK(data.tokens.size() == 1 + 2 * (prompt.size() + 2));
  CHECK(data.rows.targets() + data.val_targets() == 4);
}

TEST_CASE("a text is learned as a whole, also if validation has prompts", "[documents]") {
  const Folder f;
  f.write("t.txt", "abc\nabd\n");
  f.write("v.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  TextOptions options;
  options.data = {f.path("t.txt")};
  options.val_data = {f.path("v.jsonl")};
  options.documents = "line";
  const Dataset data = load_dataset(options, nullptr, 16);
  CHECK(data.rows.targets() == 8);  // each line and its end
  CHECK(data.val_targets() == 2);
}

TEST_CASE("documents that give validation far more than its share are noted", "[documents]") {
  const Folder f;
  const auto notes = [&](size_t first, size_t last) {
    f.write("t.txt", std::string(first, 'a') + "\n" + std::string(last, 'b') + "\n");
    return load(f, "t.txt", 16, {.documents = "line", .packing = Packing::documents}).notes;
  };
  const std::vector<std::string> found = notes(30, 200);
  REQUIRE(found.size() == 2);
  CHECK(found[0] == "validation has 86% of the tokens instead of 10%, because documents stay whole");
  CHECK(notes(200, 30).size() == 1);  // only that they are cut
}

TEST_CASE("with --loss all, the masks of token files do not count", "[documents]") {
  const Folder f;
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += "{\"prompt\": \"what is it\", \"completion\": \"it\"}\n";
  f.write("q.jsonl", lines);
  f.must("tokenize q.jsonl --tokenizer bpe:260 --val-fraction 0.2 --out A");
  const std::string dry = "train A --dry-run --context 8 --packing ";
  CHECK(contains(f.run(dry + "stream").err, "or --loss all"));
  CHECK(f.run(dry + "stream --loss all").status == 0);
  const auto targets = [&](const std::string& words) {
    const std::string out = f.run(dry + words).out;
    return out.substr(0, out.find(" to validate"));
  };
  CHECK(targets("documents") != targets("documents --loss all"));
}

TEST_CASE("a JSON line that cannot be read is named", "[documents]") {
  const Folder f;
  const auto refusal = [&](const std::string& line, const std::string& options = "") {
    f.write("q.jsonl", "{\"text\": \"good\"}\n" + line + "\n");
    const Outcome o = f.run("train q.jsonl --dry-run --context 4 --val-fraction 0 " + options);
    CHECK(o.status == 1);
    CHECK(count_lines(o.err) == 1);
    return o.err;
  };
  CHECK(contains(refusal("{\"text\": 3}"), "q.jsonl, line 2: \"text\" is not a text"));
  CHECK(contains(refusal("{\"text\": \"\"}"), "q.jsonl, line 2: there is no text to learn"));
  CHECK(contains(refusal("[1]"), "q.jsonl, line 2: it is not a JSON object"));
  CHECK(contains(refusal("{\"text\""), "q.jsonl, line 2: "));
  CHECK(contains(refusal("{\"prompt\": \"a\"}"), "q.jsonl, line 2: there is no \"completion\": name it with"));
  CHECK(contains(refusal("{\"completion\": \"a\"}"), "q.jsonl, line 2: there is no \"prompt\": name it with"));
  CHECK(contains(refusal("{\"body\": \"a\"}"),
                 "line 2: there is no \"text\", no \"messages\", and no \"prompt\" with a \"completion\""));

  // A line that could be two things, unless an option names one of them.
  const std::string two = R"({"text": "abc", "prompt": "x", "completion": "y"})",
                    talk = R"("messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])",
                    dry = "train q.jsonl --dry-run --context 4 --val-fraction 0 ";
  CHECK(contains(refusal(two), "q.jsonl, line 2: it has \"text\" and \"prompt\", and only one can be learned: name "
                               "it with --text-field text or --prompt-field prompt"));
  CHECK(contains(refusal("{\"text\": \"a\", " + talk + "}"), "it has \"text\" and \"messages\""));
  CHECK(contains(refusal(R"({"prompt": "x", "completion": "y", )" + talk + "}"), "it has \"prompt\" and \"messages\""));
  CHECK(contains(refusal(two, "--text-field text --prompt-field prompt"), "only one can be learned"));
  CHECK(contains(refusal(R"({"text": "a", "text": "b"})"), "q.jsonl, line 2: it has 'text' twice"));
  f.write("q.jsonl", two + "\n" + two + "\n");
  for (const std::string option : {"--text-field text", "--prompt-field prompt", "--completion-field completion"}) {
    INFO(option);
    CHECK(contains(f.run(dry + option).out, option == "--text-field text" ? " 8 tokens to" : " 4 tokens to"));
  }
  const std::string metadata = R"({"text": "a", "prompt": "x", "messages": null})";
  f.write("q.jsonl", metadata + "\n" + metadata + "\n");
  CHECK(f.run(dry).status == 0);

  f.write("q.txt", "\n{\"text\": \"one two\"}\n\n{\"text\": \"three\"}\n");
  CHECK(contains(f.run("train q.txt --dry-run --context 4 --val-fraction 0").out, "14 tokens to train on"));
  f.write("q.jsonl", "{\"body\": \"one two\"}\n{\"body\": \"three\"}\n");
  CHECK(f.run("train q.jsonl --dry-run --context 4 --val-fraction 0 --text-field body").status == 0);
}

namespace {

std::string numbers(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    lines += "{\"prompt\": \"the number after " + n + " is \", \"completion\": \"" + std::to_string(i + 1) + "\"}\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("a model of a stream does not count prompts, even if no token separates documents", "[documents]") {
  const Corpus f;
  f.write("q.jsonl", numbers(40));
  REQUIRE(f.run("train stories.txt --steps 2 --warmup 0 --out r" + kTiny).status == 0);
  REQUIRE(read_checkpoint_header(f.path("r/checkpoint.safetensors")).tokenizer.vocabulary() == 256);
  const std::string message = "--packing stream cannot leave prompts out of the loss: ";
  check_refused(f, "eval r --data q.jsonl", message);
  check_refused(f, "train q.jsonl --init-from r --packing stream --dry-run --steps 2", message);
  check_refused(f, "train stories.txt --val-data q.jsonl --dry-run --steps 2" + kTiny, message);
  CHECK(f.run("eval r --data q.jsonl --loss all").status == 0);
}

TEST_CASE("answers of documents that are longer than the context are not counted, and that is said", "[documents]") {
  const Folder f;
  f.write("q.jsonl", numbers(30) + "{\"prompt\": \"more\", \"completion\": \"" + std::string(70, 'x') + "\"}\n" +
                       "{\"prompt\": \"" + std::string(70, 'x') + "\", \"completion\": \"more\"}\n");
  REQUIRE(f.run("train q.jsonl --steps 2 --warmup 0 --context 32 --val-fraction 0 --out r --layers 1 --heads 1 "
                "--channels 8 --batch 2 --quiet").status == 0);
  const Outcome o = f.run("eval r --data q.jsonl");
  INFO(o.out << o.err);
  CHECK(contains(o.out, " of 30 answers exact "));
  CHECK(contains(o.out, "2 answers not counted, of documents longer than the context\n"));
  const nlohmann::json found = parse_json(f.run("eval r --data q.jsonl --json").out);
  CHECK(found.at("answers") == 30);
  CHECK(found.at("cut") == 2);
}

TEST_CASE("tokenize writes documents, and the mask of prompts next to them", "[documents]") {
  const Folder f;
  f.write("q.jsonl", numbers(40));
  const Outcome o = f.run("tokenize q.jsonl --tokenizer bpe:300 --out tokens");
  INFO(o.err);
  REQUIRE(o.status == 0);
  CHECK(contains(o.out, "40 documents"));
  REQUIRE(f.has("tokens/train_000000.mask"));
  const Dataset tokens = load(f, "tokens", 64);
  CHECK(tokens.packing == Packing::documents);
  Dataset text;
  {
    TextOptions options;
    options.data = {f.path("q.jsonl")};
    options.tokenizer = f.path("tokens/tokenizer.json");
    text = load_dataset(options, nullptr, 64);
  }
  CHECK(tokens.rows.targets() + tokens.val.targets() == text.rows.targets() + text.val.targets());
  CHECK(tokens.val_bytes < 40);  // the answers alone
  CHECK(contains(f.run("train tokens --packing stream --context 16 --dry-run").err,
                 "--packing stream cannot leave prompts out of the loss"));
  f.write("tokens/train_000000.mask", "\1");
  CHECK(contains(f.run("train tokens --context 64 --dry-run").err, "train_000000.mask has 1 bytes, and "));
  REQUIRE(f.run("tokenize q.jsonl --tokenizer bpe:300 --loss all --out tokens --force").status == 0);
  CHECK_FALSE(f.has("tokens/train_000000.mask"));
}

TEST_CASE("tokenize reads a file once, and notes files of equal text", "[documents]") {
  const Folder f;
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::to_string(i) + "\n";
  f.write("d/a.txt", text);
  f.write("d/b.txt", text + "300\n");
  const auto tokenized = [&](const std::string& words) {
    const Outcome o = f.run("tokenize " + words + " --tokenizer bpe:300 --out tokens --force");
    INFO(o.err);
    REQUIRE(o.status == 0);
    return o;
  };
  const Outcome once = tokenized("d");
  CHECK_FALSE(contains(once.err, "NOTE"));
  const std::string words = f.read("tokens/train_000000.bin");
  for (const std::string again : {"d d/a.txt", "d d d/../d/b.txt"}) {
    CHECK(contains(tokenized(again).err, "NOTE: named twice, and read once: d/"));
    CHECK(f.read("tokens/train_000000.bin") == words);
  }
  f.write("copy.txt", text);
  CHECK(contains(tokenized("d copy.txt").err, "NOTE: the same text as another file: copy.txt; validation may be of "));
}

TEST_CASE("JSON lines are known by their name or by two objects, and logs in a folder are learned as they are",
          "[documents][long]") {
  const Folder f;
  const auto plan = [&](const std::string& data) {
    const Outcome o = f.run("train " + data + " --dry-run --context 8 --val-fraction 0");
    return o.out + o.err;
  };
  const std::string text = "{\"text\": \"Some words.\"}\n", log = "{\"event\": \"step\", \"loss\": 3}\n";
  f.write("one.jsonl", text);
  CHECK(contains(plan("one.jsonl"), "rows  "));
  f.write("long.jsonl", "{\"text\": \"" + std::string(100000, 'x') + "\"}\n");  // longer than what is looked at first
  CHECK(contains(plan("long.jsonl"), "rows  "));
  f.write("broken.jsonl", "{\"text\": \"Some words.\n" + text);
  CHECK(contains(plan("broken.jsonl"), "broken.jsonl, line 1: "));
  f.write("broken.jsonl", text + "{\"text\": \"caf\xe9\"}\n");
  CHECK(contains(plan("broken.jsonl"), "broken.jsonl, line 2: it is not JSON: byte 15 is unexpected"));
  f.write("two.txt", text + text);
  CHECK(contains(plan("two.txt"), "rows  "));
  f.write("folder/notes.txt", "Some words that are no JSON.\n");
  f.write("folder/log.txt", log + log);
  f.write("folder/package.json", log);
  CHECK(contains(plan("folder"), "NOTE     JSON lines are learned as they are: folder/log.txt; "));
  f.write("folder/more.jsonl", log);
  CHECK(contains(plan("folder"), "folder/more.jsonl, line 1: there is no \"text\""));
}

TEST_CASE("a text to validate on may be one document, and that is noted", "[documents][program]") {
  const Folder f;
  f.write("many.txt", "One two three.<|endoftext|>Four five six.<|endoftext|>Seven eight nine ten.");
  f.write("one.txt", "Eleven twelve thirteen.");
  const std::string words = "--layers 1 --channels 8 --heads 1 --context 8 --batch 1 --steps 1 --warmup 0 --quiet "
                            "--documents <|endoftext|> ";
  f.must("train many.txt --val-fraction 0.5 " + words + "--out r");
  const std::string note = "there is no <|endoftext|> in one.txt: each file is one document";
  const Outcome o = f.run("eval r --data one.txt");
  CHECK(o.status == 0);
  CHECK(contains(o.err, "NOTE: " + note));
  CHECK(contains(f.run("train many.txt --val-data one.txt --dry-run " + words).out, "NOTE     " + note));
  check_refused(f, "train one.txt " + words, "--documents <|endoftext|>: there is no such text in one.txt");
}
