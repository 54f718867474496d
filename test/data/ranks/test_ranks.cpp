// Runs of several ranks, which mpirun starts. They need `make MPI=1` before the tests.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "check.hpp"
#include "layers/config/placements.hpp"
#include "program.hpp"
#include "small_run.hpp"

namespace fs = std::filesystem;

namespace {

const std::string kSix = " --steps 6 --accumulate 4" + kSmall, kWords = "train --data stories.txt" + kSix;

std::string with_mpi() { return program_path() + "-mpicxx"; }

bool can_run_ranks() {
  if (fs::exists(with_mpi()) && std::system("mpirun --version >/dev/null 2>&1") == 0) return true;
  skip_test("no build with MPI, or no mpirun: make MPI=1");
  return false;
}

// Open MPI refuses to run as root or with more ranks than processors, unless told otherwise.
int run_ranks(const Folder& f, int ranks, const std::string& words) {
  const std::string command = "cd '" + f.path("") + "' && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " +
                              "OMPI_MCA_rmaps_base_oversubscribe=1 mpirun -n " + std::to_string(ranks) + " '" +
                              with_mpi() + "' " + words + " >out.txt 2>err.txt";
  return std::system(command.c_str());
}

// The same build, but with other bytes.
std::string other_program(const Folder& f) {
  const std::string copy = f.path("other");
  fs::copy_file(with_mpi(), copy);
  std::ofstream(copy, std::ios::app) << "x";
  return copy;
}

// The numbers of a checkpoint, without its header, which contains the run's times.
std::string numbers_of(const Folder& f, const std::string& run) {
  const std::string file = f.read(run + "/checkpoint.safetensors");
  uint64_t header = 0;
  REQUIRE(file.size() > sizeof header);
  std::memcpy(&header, file.data(), sizeof header);
  return file.substr(sizeof header + header);
}

// CHECKs that runs with these options leave the bits of one rank.
void check_ranks(const Folder& f, const std::string& name, const std::string& options, std::vector<int> numbers,
                 const std::string& data = "stories.txt") {
  INFO(name);
  const std::string words = "train --data " + data + kSix + options + " --eval-every 3 --lanes 4 --out ";
  REQUIRE(f.run(words + name + "-1").status == 0);
  for (const int ranks : numbers) {
    const std::string run = name + "-" + std::to_string(ranks);
    const int status = run_ranks(f, ranks, words + run);
    INFO(run << ": " << f.read("err.txt"));
    REQUIRE(status == 0);
    CHECK(numbers_of(f, run) == numbers_of(f, name + "-1"));
    CHECK(losses_in(f.read(run + "/metrics.csv")) == losses_in(f.read(name + "-1/metrics.csv")));
    if (f.has(run + "/diagnostics.csv"))
      CHECK(f.read(run + "/diagnostics.csv") == f.read(name + "-1/diagnostics.csv"));
  }
}

}  // namespace

TEST_CASE("several ranks leave the bits of one", "[ranks][program]") {
  if (!can_run_ranks()) return;
  const std::pair<const char*, const char*> runs[] = {
      {"selective", "--placement sandwich --dropout 0.1 --recompute selective"},
      {"llama", "--preset llama --kv-heads 1 --clip 0.5 --recompute full"},
      {"frozen", "--placement deepnorm --freeze embedding --lr-norm 1e-3"},
      {"lora", "--lora 2"},
      {"batchnorm", "--norm batchnorm"},
      {"variants", "--value-residual learned --stream-mix --output-gate headwise --zero-init"},
      {"documents", "--documents line --context 256 --experts 4"},
      {"sources", "--objective span --encoder-layers 1 --documents line --context 256"},
      {"diagnostics", "--diagnostics 2 --qk-norm head"}};
  const Corpus f;
  for (const auto& [name, options] : runs) check_ranks(f, name, options, {2, 3});
  REQUIRE(f.run("corpus pairs.tsv --pairs-of translation --count 100").status == 0);
  const std::string relative = "--objective pairs --encoder-layers 2 --position relative --context 256";
  check_ranks(f, "pairs", relative, {2, 3}, "pairs.tsv");
  for (const Placement& p : placements()) check_ranks(f, p.name, std::string("--placement ") + p.name, {3});
}

TEST_CASE("two ranks leave the bits of one with every placement", "[ranks][program][nightly]") {
  if (!can_run_ranks()) return;
  const Corpus f;
  for (const Placement& p : placements()) check_ranks(f, p.name, std::string("--placement ") + p.name, {2});
}

TEST_CASE("a run resumes on another number of ranks", "[ranks][program]") {
  if (!can_run_ranks()) return;
  const Corpus f;
  REQUIRE(f.run(kWords + "--lanes 4 --out whole").status == 0);
  REQUIRE(run_ranks(f, 3, kWords + "--lanes 4 --out parts --schedule-end 6 --steps 2") == 0);
  REQUIRE(run_ranks(f, 2, "train --data stories.txt --out parts --resume --steps 4") == 0);
  REQUIRE(f.run("train --data stories.txt --out parts --resume --steps 6").status == 0);
  CHECK(numbers_of(f, "parts") == numbers_of(f, "whole"));
}

TEST_CASE("ranks that cannot share a step are refused in one line", "[ranks][program]") {
  const Corpus f;
  ::setenv("PMI_SIZE", "2", 1);
  const Outcome without_mpi = f.run(kWords + "--out r"), sample = f.run("sample");
  ::unsetenv("PMI_SIZE");
  CHECK(without_mpi.status == 1);
  CHECK(contains(without_mpi.err, "2 processes were started together, and this program was built without MPI"));
  CHECK(contains(sample.err, "2 processes were started, and this command is the work of one"));
  CHECK(!f.has("r"));
  for (const char* option : {"--world-size", "--ddp", "--num-nodes", "--nproc-per-node"})
    check_refused(f, kWords + option + " 2", "`mpirun -n 2 train_gpt train ...` trains in 2 processes");
  check_refused(f, kWords + "--lanes 3 --out r", "--lanes 3 is not a power of two");
  check_refused(f, kWords + "--lanes 8 --out r", "--lanes 8 does not divide --accumulate 4");
  if (!can_run_ranks()) return;
  const std::string words = "cd '" + f.path("") + "' && PMI_SIZE=2 '" + with_mpi() + "' " + kWords + "--out r";
  CHECK(std::system((words + " 2>err.txt").c_str()) != 0);  // as MPICH's mpirun starts a program with Open MPI
  CHECK(contains(f.read("err.txt"), "MPI connects 1 of the 2 processes that were started: use the mpirun of"));
  CHECK(run_ranks(f, 1, kWords + "--out r : -n 1 '" + other_program(f) + "' " + kWords + "--out r") != 0);
  CHECK(contains(f.read("err.txt"), "this program is not the one that rank 0 on "));
  const std::pair<const char*, const char*> refusals[] = {
      {"--accumulate 3", "2 ranks in 2 lanes need an --accumulate that 2 divides, not 3: --batch 3 --accumulate 4"},
      {"--lanes 1", "--lanes 1 is too few for 2 ranks: choose --lanes 2\n"},
      {"--lanes 1 --accumulate 3", "--lanes 1 is too few for 2 ranks: choose --lanes 2 --batch 3 --accumulate 4\n"},
      {"--textbook", "--textbook runs in one process"}};
  for (const auto& [options, message] : refusals) {
    INFO(options);
    CHECK(run_ranks(f, 2, kWords + options + " --out r") != 0);
    CHECK(contains(f.read("err.txt"), message));
    CHECK(!f.has("r"));
  }
}
