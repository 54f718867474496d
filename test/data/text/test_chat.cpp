// Conversations: chat templates, what is learned of them, and how a model is asked.

#include "catch.hpp"
#include "check.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/text/documents.hpp"
#include "data/text/token_files.hpp"
#include "data/tokenizer/bpe_training.hpp"
#include "data/tokenizer/chat_template.hpp"
#include "data/tokenizer/files/stored_tokenizer.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "message.hpp"
#include "small_run.hpp"

namespace {

using nlohmann::json;

const std::string kEnd = "<|endoftext|>";
const json kDuck = {{{"role", "user"}, {"content", "Who quacks?"}},
                    {{"role", "assistant"}, {"content", "Emma."}},
                    {{"role", "user"}, {"content", "Where?"}},
                    {{"role", "assistant"}, {"content", "At the pond."}}};

std::string line_of(const json& messages) { return to_text(json{{"messages", messages}}) + "\n"; }

Dataset load(const Folder& f, const std::string& chat, LearnedPart learn = LearnedPart::completion,
             const Tokenizer* tokenizer = nullptr) {
  TextOptions options;
  options.data = {f.path("q.jsonl")};
  options.val_fraction = 0;
  options.learn = learn;
  if (!chat.empty()) options.chat = &find_chat_template(chat);
  return load_dataset(options, tokenizer, 256);
}

// The tokens of the first row as text: what the model reads, and what it learns to write.
struct FirstRow {
  std::string read, learned;
  explicit FirstRow(const Dataset& data) {
    const TokenWindow window = data.rows[0][0];
    const RowBatch row = fill_rows(data, data.rows, 0, 1, 256);
    for (int t = 0; t < window.length; ++t) {
      read += data.tokenizer.decode(row.tokens[t]);
      if (row.targets[t] != kIgnore) learned += data.tokenizer.decode(row.targets[t]);
    }
  }
};

// 200 questions whose answers are in them.
std::string questions(bool messages) {
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    const std::string name = i % 2 ? "Emma" : "Max", question = name + " has a duck. Who?";
    const json turns = {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", name}}};
    lines += messages ? line_of(turns) : to_text(json{{"prompt", question}, {"completion", name}}) + "\n";
  }
  return lines;
}

const std::string kTrain = " --layers 2 --heads 2 --channels 32 --context 128 --steps 150 --lr 1e-2 --quiet --out ";

}  // namespace

TEST_CASE("a conversation is written as its template says, and the assistant's turns alone are learned", "[chat]") {
  const Folder f;
  f.write("q.jsonl", line_of(kDuck));
  for (const std::string name : {"", "chatml"}) {
    const Dataset data = load(f, name);
    REQUIRE(data.chat);
    CHECK(std::string(data.chat->name) == "chatml");
    CHECK(data.tokenizer.vocabulary() == 259);
    const FirstRow row(data);
    CHECK(row.read == kEnd + "<|im_start|>user\nWho quacks?<|im_end|>\n<|im_start|>assistant\nEmma.<|im_end|>\n"
                             "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\nAt the pond.<|im_end|>\n");
    CHECK(row.learned == "Emma.<|im_end|>At the pond.<|im_end|>");
    CHECK(data.val_targets() == 0);
  }
  const Dataset plain = load(f, "plain");
  CHECK(plain.tokenizer.vocabulary() == 257);
  const FirstRow row(plain);
  CHECK(row.read == kEnd + "User: Who quacks?\nAssistant: Emma." + kEnd + "User: Where?\nAssistant: At the pond.");
  CHECK(row.learned == " Emma." + kEnd + " At the pond." + kEnd);
  CHECK(FirstRow(load(f, "plain", LearnedPart::all)).learned == row.read.substr(kEnd.size()) + kEnd);

  f.write("q.jsonl", "{\"text\": \"a text\"}\n");  // its tokenizer is ready for conversations that come later
  CHECK(load(f, "chatml").tokenizer.vocabulary() == 259);
  CHECK_FALSE(load(f, "chatml").chat);
  f.write("q.jsonl", "{\"prompt\": \"Who quacks?\", \"completion\": \"Emma.\"}\n");
  CHECK(FirstRow(load(f, "plain")).read == kEnd + "User: Who quacks?\nAssistant: Emma.");
  CHECK(FirstRow(load(f, "")).read == kEnd + "Who quacks?Emma.");
  CHECK_FALSE(load(f, "").chat);
}

TEST_CASE("no tokenizer puts a space of its own between a prompt and its completion", "[chat]") {
  const Folder f;
  const Tokenizer pieces = read_tokenizer("test/reference/pieces/llama2.model");
  const std::string prompt = "Who quacks?";
  for (const std::string completion : {" The duck.", "the duck."}) {
    f.write("q.jsonl", to_text(json{{"prompt", prompt}, {"completion", completion}}) + "\n");
    const Dataset data = load(f, "", LearnedPart::completion, &pieces);
    const std::vector<uint32_t> want = pieces.encode(prompt + completion);
    std::vector<uint32_t> got;
    data.tokens.for_each(1, 1 + want.size(), [&](uint32_t token) { got.push_back(token); });
    CHECK(got == want);
    CHECK(FirstRow(data).learned.starts_with(completion));
    CHECK(data.notes.empty());
  }
  f.write("q.jsonl", to_text(json{{"prompt", "Answer: "}, {"completion", "the duck."}}) + "\n");
  CHECK(contains(load(f, "", LearnedPart::completion, &pieces).notes.at(0), "1 of the prompts end within a token"));
}

TEST_CASE("an answer with the weight 0 is read and not learned", "[chat]") {
  const Folder f;
  json turns = kDuck;
  turns[1]["weight"] = 0;
  turns[3]["weight"] = 1;
  f.write("q.jsonl", line_of(kDuck));
  const std::string whole = FirstRow(load(f, "chatml")).read;
  f.write("q.jsonl", line_of(turns));
  CHECK(FirstRow(load(f, "chatml")).read == whole);
  CHECK(FirstRow(load(f, "chatml")).learned == "At the pond.<|im_end|>");
  CHECK(FirstRow(load(f, "plain")).learned == " At the pond." + kEnd);
  turns[1]["weight"] = .5;
  f.write("q.jsonl", line_of(turns));
  CHECK(contains(message_of<std::runtime_error>([&] { load(f, "chatml"); }),
                 "q.jsonl, line 1: the \"weight\" of a message is not 0 or 1"));
}

TEST_CASE("the texts between special tokens are encoded as one", "[chat]") {
  const Folder f;
  const std::string answer = "\n\nEmma and Emma";  // joins the newline that ends the role
  f.write("q.jsonl", line_of({{{"role", "user"}, {"content", "Who?"}}, {{"role", "assistant"}, {"content", answer}}}));
  const Tokenizer bpe = train_tokenizer("\n\n\nEmma\n\n\nEmma Emma\n\n\nassistant\n\n\n", 280,
                                        {kEnd, "<|im_start|>", "<|im_end|>"});
  const Dataset data = load(f, "chatml", LearnedPart::completion, &bpe);
  const std::vector<uint32_t> want = bpe.encode("assistant\n" + answer);
  const size_t end = data.tokens.size() - 3;  // before <|im_end|>, "\n" and the end
  std::vector<uint32_t> got;
  data.tokens.for_each(end - want.size(), end, [&](uint32_t token) { got.push_back(token); });
  CHECK(got == want);
  // A token with the end of the role and the begin of the answer belongs to the answer.
  CHECK(FirstRow(data).learned == "\n\n\nEmma and Emma<|im_end|>");
}

TEST_CASE("a tokenizer without a template's tokens takes the plain one, and refuses chatml", "[chat]") {
  const Folder f;
  f.write("q.jsonl", line_of(kDuck));
  const Tokenizer with_end = Tokenizer::bytes().with_special({kEnd});
  CHECK(std::string(load(f, "", LearnedPart::completion, &with_end).chat->name) == "plain");
  CHECK(jinja_of(find_chat_template("plain"), with_end.with_begin(256)).starts_with("{{ bos_token }}{% for"));
  CHECK(jinja_of(find_chat_template("plain"), with_end).starts_with("{% for"));
  CHECK(message_of<std::runtime_error>([&] { load(f, "chatml", LearnedPart::completion, &with_end); }) ==
        "--chat-template chatml: the tokenizer has no special token <|im_start|>; use --chat-template plain, or train "
        "a new model with this one from the start");
}

TEST_CASE("a tokenizer with several added tokens is stored and read again", "[chat]") {
  const std::vector<std::string> names = {kEnd, "<|im_start|>", "<|im_end|>"};
  for (const Tokenizer& t :
       {Tokenizer::bytes(), Tokenizer::characters(std::string_view("ab")), train_tokenizer("abab", 257)}) {
    const Tokenizer more = t.with_special(names).with_begin(t.vocabulary());
    CHECK(more.vocabulary() == t.vocabulary() + 3);
    const Tokenizer again = tokenizer_from_json(to_json(more));
    CHECK(again.begin() == t.vocabulary());
    for (int i = 0; i < 3; ++i) {
      CHECK(again.special(names[i]) == t.vocabulary() + i);
      CHECK(again.name_of_special(t.vocabulary() + i) == names[i]);
      CHECK(again.decode(t.vocabulary() + i) == names[i]);
    }
    CHECK(again.vocabulary() == more.vocabulary());
  }
}

TEST_CASE("a conversation that cannot be read is named", "[chat]") {
  const Folder f;
  const auto refuses = [&](const std::string& line, const std::string& message, const std::string& options = "") {
    f.write("q.jsonl", "{\"text\": \"good\"}\n" + line + "\n");
    check_refused(f, "train q.jsonl --dry-run --context 64 --val-fraction 0 " + options, message);
  };
  refuses(R"({"messages": "hi"})", "q.jsonl, line 2: \"messages\" is not a list");
  refuses(R"({"messages": ["hi"]})", "line 2: a message is not a JSON object");
  refuses(R"({"messages": [{"role": "user"}]})", "line 2: a message has no \"content\"");
  refuses(R"({"messages": [{"role": "user", "content": ["hi"]}]})", "line 2: \"content\" is not a text");
  refuses(R"({"messages": [{"role": "tool", "content": "hi"}]})",
          "line 2: the role 'tool' is not system, user or assistant");
  refuses(R"({"messages": [{"role": "user", "content": "hi"}]})", "line 2: there is no text to learn");
  refuses(R"({"messages": []})", "line 2: there is no text to learn");
  refuses(R"({"prompt": "a", "completion": "b"})" "\n" + line_of(kDuck),
          "there are prompts next to conversations: name a --chat-template for both");
  refuses(line_of(kDuck), "unknown chat-template 'none': choose one of chatml plain", "--chat-template none");
  f.write("q.jsonl", R"({"turns": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})" "\n");
  CHECK(f.run("train q.jsonl --dry-run --context 64 --val-fraction 0 --messages-field turns").status == 0);
}

TEST_CASE("token files of conversations hold their tokens and mask, or are refused", "[chat]") {
  const Folder f;
  f.write("q.jsonl", line_of(kDuck));
  check_refused(f, "tokenize q.jsonl --tokenizer bpe:300 --chat-template plain --out no",
                "q.jsonl, line 1: in token files, the end of an answer would end the conversation");
  REQUIRE(f.run("tokenize q.jsonl --tokenizer bpe:300 --val-fraction 0 --out tokens").status == 0);
  const Tokenizer tokenizer = read_tokenizer(f.path("tokens/tokenizer.json"));
  const Dataset data = load(f, "chatml", LearnedPart::completion, &tokenizer);
  Tokens tokens, counted;
  append_token_file(tokens, f.path("tokens/train_000000.bin"), &counted);
  REQUIRE(tokens.size() == data.tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    CHECK(tokens[i] == data.tokens[i]);
    CHECK(counted[i] == data.counted[i]);
  }
}

TEST_CASE("a model of conversations answers, is exported with its template, and resumes", "[chat][program][long]") {
  for (const std::string chat : {"chatml", "plain"}) {
    INFO(chat);
    const Folder f;
    f.write("q.jsonl", questions(true));
    REQUIRE(f.run("train q.jsonl --chat-template " + chat + kTrain + "r").status == 0);
    CHECK(f.run("sample r --greedy", "Max has a duck. Who?").out == "Max\n");
    const Outcome two = f.run("sample r --greedy --interactive", "Max has a duck. Who?\nEmma has a duck. Who?\n");
    CHECK(two.out == "Max\nEmma\n");
    CHECK(contains(two.err, "[the first turns no longer fit into the context]"));
    const Outcome as_json = f.run("sample r --greedy --json", "Emma has a duck. Who?");
    CHECK(parse_json(as_json.out).at("text") == "Emma");
    CHECK(parse_json(as_json.out).at("end") == (chat == "chatml" ? "turn" : "document"));
    CHECK(contains(f.run("sample r --raw --json", "Emma").out, "\"text\":"));
    check_refused(f, "sample r --length 1", "this model has learned to answer, and not how a text begins");
    CHECK(f.run("sample r --raw --length 1").status == 0);

    REQUIRE(f.run("export r --to hf --out hf").status == 0);
    const json config = parse_json(f.read("hf/tokenizer_config.json"));
    const Tokenizer tokenizer = read_checkpoint_header(f.path("r/checkpoint.safetensors")).tokenizer.with_begin(256);
    CHECK(config.at("chat_template") == jinja_of(find_chat_template(chat), tokenizer));
    CHECK(config.at("eos_token") == (chat == "chatml" ? "<|im_end|>" : kEnd));
    CHECK(parse_json(f.read("hf/config.json")).at("eos_token_id") == (chat == "chatml" ? 258 : 256));
    f.write("hf/tokenizer_config.json", "{");
    CHECK(contains(f.run("sample hf --raw --length 1").err, "NOTE: tokenizer_config.json cannot be read, and counts"));
    REQUIRE(f.run("export r --to gguf --out r.gguf").status == 0);
    const std::string gguf = f.read("r.gguf");
    CHECK(contains(gguf, std::string("tokenizer.chat_template")));
    CHECK(contains(gguf, "{{ bos_token }}{% for message in messages %}"));

    REQUIRE(f.run("train --resume --steps 151 --quiet --out r").status == 0);
    CHECK(contains(f.run("train --resume --steps 152 --chat-template " +
                         std::string(chat == "plain" ? "chatml" : "plain") + " --out r").err, "--chat-template is"));
    // A model of texts continues a prompt, although it knows the template.
    f.write("t.jsonl", "{\"text\": \"Max has a duck.\"}\n");
    REQUIRE(f.run("train t.jsonl --chat-template " + chat + " --val-fraction 0 --layers 1 --channels 8 --heads 1 "
                  "--context 32 --steps 1 --quiet --out t").status == 0);
    CHECK(f.run("sample t --length 0", "Max has").out == "Max has\n");
    CHECK_FALSE(contains(f.run("export t --to hf --out hf-t").out, "train_gpt:"));
    CHECK_FALSE(parse_json(f.read("hf-t/tokenizer_config.json")).contains("chat_template"));
    // A prompt is a turn for a model of conversations, in fine-tuning and in `eval`, too.
    f.write("p.jsonl", questions(false));
    CHECK(parse_json(f.run("eval r --json --data q.jsonl").out).at("nats") ==
          parse_json(f.run("eval r --json --data p.jsonl").out).at("nats"));
    REQUIRE(f.run("train p.jsonl --init-from r --steps 1 --quiet --out fine").status == 0);
    CHECK(contains(f.read("fine/config.toml"), "chat-template = \"" + chat + "\""));
  }
}

TEST_CASE("a model that comes back keeps its chat template, and another one is noted", "[chat][program]") {
  const std::string note = "the chat template that came with this model is not used";
  for (const std::string words : {"--tokenizer bpe:300 --chat-template chatml", "--chat-template plain"}) {
    INFO(words);
    const Folder f;
    f.write("p.jsonl", questions(false));
    const std::string more = " --layers 1 --channels 8 --heads 1 --context 64 --batch 2 --steps 2 --quiet ";
    f.must("train p.jsonl --val-fraction 0.2 " + words + more + "--out run");
    f.must("export run --to hf --out hf");
    f.must("export run --to gguf --out run.gguf");
    f.must("import hf --out from-hf");
    f.must("import run.gguf --out from-gguf");
    f.must("export from-gguf --to hf --out again");
    f.must("train p.jsonl --init-from hf" + more + "--out tuned");
    const auto nats = [&](const std::string& model) {
      const Outcome o = f.run("eval " + model + " --data p.jsonl --json");
      INFO(model << o.err);
      CHECK_FALSE(contains(o.err, note));
      return parse_json(o.out).at("nats").get<double>();
    };
    for (const char* model : {"hf", "run.gguf", "from-hf", "from-gguf", "again"})
      CHECK(nats(model) == Approx(nats("run")).epsilon(1e-6));
    CHECK(contains(f.read("tuned/config.toml"), words.substr(words.rfind(' ') + 1)));
    CHECK_FALSE(contains(f.run("sample hf --prompt Who --length 3").out, "Who"));
    json other = parse_json(f.read("hf/tokenizer_config.json"));
    other["chat_template"] = "{{ bos_token }}[INST]{{ messages[0]['content'] }}[/INST]";
    f.write("hf/tokenizer_config.json", to_text(other));
    for (const char* command : {"import hf --out other", "sample hf --prompt Who --length 1", "eval hf --data p.jsonl",
                                "sample other --prompt Who --length 1",
                                "train p.jsonl --init-from other --steps 1 --warmup 0 --out tuned2"}) {
      INFO(command);
      const Outcome o = f.run(command);
      CHECK(contains(o.err + o.out, note));
    }
    CHECK_FALSE(contains(f.run("sample hf --prompt Who --length 1 --raw").err, note));
  }
}
