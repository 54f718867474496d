#include "mpi_group.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <unistd.h>

#include "data/files/files.hpp"
#include "data/host/progress.hpp"
#include "data/strings/format.hpp"
#include "launcher.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"

std::string describe(const Place& place, int ranks) {
  const std::string here = std::to_string(place.ranks_on_node) + " x " + counted(max_threads(), "thread");
  const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  std::string text =
      "ranks    " + std::to_string(ranks) + " on " + counted(place.nodes, "node") + ", " + here + " on this one";
  if (long{place.ranks_on_node} * max_threads() > processors)
    text += "\nWARNING  " + here + " share " + counted(double(processors), "processor") +
            ": start fewer ranks, or give them fewer --threads";
  return text;
}

#ifdef TRAIN_GPT_MPI
#include <mpi.h>

namespace {

// Returns 0 if the program file cannot be read.
uint64_t hash_of_program() {
  const char* self = "/proc/self/exe";
  return std::filesystem::exists(self) ? rng::word(read_file(self)) : 0;
}

constexpr size_t kMost = 1 << 28;  // most bytes or floats in one message, because MPI counts in ints

class MpiGroup : public Group {
 public:
  explicit MpiGroup(Place& place) {
    int threads = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place.rank_on_node);
    MPI_Comm_size(node, &place.ranks_on_node);
    MPI_Comm_free(&node);
    int first = place.rank_on_node == 0;
    MPI_Allreduce(&first, &place.nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    place.threads = share_processors(place.rank_on_node, place.ranks_on_node);
    peers.resize(size);
    ::gethostname(peers[rank].host, sizeof peers[rank].host - 1);
    peers[rank].program = hash_of_program();
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, peers.data(), sizeof peers[0], MPI_BYTE, MPI_COMM_WORLD);
    require_one_program();
    MPI_Comm_dup(MPI_COMM_WORLD, &roll_call);
  }
  ~MpiGroup() override {
    MPI_Comm_free(&roll_call);
    MPI_Finalize();
  }

  void broadcast(void* data, size_t bytes) override {
    for (size_t at = 0; at < bytes; at += kMost) {
      std::vector<MPI_Request> request(1);
      MPI_Ibcast(static_cast<char*>(data) + at, static_cast<int>(std::min(kMost, bytes - at)), MPI_BYTE, 0,
                 MPI_COMM_WORLD, request.data());
      wait(request);
    }
  }

  // Only one rank contributes each number and the others add zeros, so MPI's order of adding does not matter.
  void collect(std::span<double> numbers) override {
    std::vector<MPI_Request> request(1);
    MPI_Iallreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(numbers.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                   request.data());
    wait(request);
  }

  std::unique_ptr<Transfer> start(std::span<const Message> sends, std::span<const Message> receives) override {
    std::vector<MPI_Request> requests;
    const auto begin = [&](const Message& m, auto call) {
      for (size_t at = 0; at < m.floats; at += kMost) {
        requests.emplace_back();
        call(m.data + at, static_cast<int>(std::min(kMost, m.floats - at)), MPI_FLOAT, m.rank, 0, MPI_COMM_WORLD,
             &requests.back());
      }
    };
    for (const Message& m : receives) begin(m, MPI_Irecv);
    for (const Message& m : sends) begin(m, MPI_Isend);
    return std::make_unique<MpiTransfer>(*this, std::move(requests));
  }

 private:
  struct Peer {
    char host[64];
    uint64_t program;
  };

  // Different builds may round differently, or misread each other's messages. The first rank that differs ends the job.
  void require_one_program() const {
    const auto differs = [&](const Peer& peer) { return peer.program != peers[0].program; };
    const auto other = std::ranges::find_if(peers, differs) - peers.begin();
    if (other == rank)
      end_all_ranks(*this, "this program is not the one that rank 0 on " + std::string(peers[0].host) +
                               " runs: copy one build to all hosts");
    if (other < size) wait_for_the_end();
  }

  // Waits for another rank to end the job.
  static void wait_for_the_end() { std::this_thread::sleep_for(std::chrono::seconds(10)); }

  class MpiTransfer : public Transfer {
   public:
    MpiTransfer(const MpiGroup& g, std::vector<MPI_Request> all) : group(g), requests(std::move(all)) {}
    bool has_arrived() override { return have_arrived(requests); }
    void wait() override { group.wait(requests); }

   private:
    const MpiGroup& group;
    std::vector<MPI_Request> requests;
  };

  static bool have_arrived(std::span<MPI_Request> requests) {
    int arrived = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &arrived, MPI_STATUSES_IGNORE);
    return arrived;
  }

  // Counts at most one second between two checks, so that time during which all ranks were stopped (Ctrl-Z) is left
  // out.
  void wait(std::span<MPI_Request> requests) const {
    const Stopwatch clock;
    double last = 0, waited = 0;
    while (!have_arrived(requests)) {
      const double now = clock.seconds();
      waited += std::min(now - last, 1.);
      last = now;
      if (timeout > 0 && waited > timeout) end_without_answer();
    }
  }

  // Ranks that have waited too long call the roll. A rank that does not answer is reported as missing.
  [[noreturn]] void end_without_answer() const {
    constexpr double kPatience = 5;  // seconds; the ranks began to wait at different times
    std::vector<MPI_Request> answers(size, MPI_REQUEST_NULL), calls(size, MPI_REQUEST_NULL);
    char nothing = 0;
    for (int r = 0; r < size; ++r) {
      if (r == rank) continue;
      MPI_Irecv(&nothing, 0, MPI_BYTE, r, 0, roll_call, &answers[r]);
      MPI_Isend(&nothing, 0, MPI_BYTE, r, 0, roll_call, &calls[r]);
    }
    std::vector<bool> present(size);
    present[rank] = true;
    for (const Stopwatch clock; clock.seconds() < kPatience;)
      for (int r = 0; r < size; ++r)
        if (!present[r]) present[r] = have_arrived({&answers[r], 1});
    if (std::find(present.begin(), present.end(), true) - present.begin() < rank)
      wait_for_the_end();
    std::string missing;
    for (int r = 0; r < size; ++r)
      if (!present[r]) missing += ", rank " + std::to_string(r) + " on " + peers[r].host;
    const std::string who = missing.empty() ? "the network, though all ranks wait" : missing.substr(2);
    end_all_ranks(*this, "no answer for " + format("%.3g s", timeout) + " (--rank-timeout) from " + who);
  }

  std::vector<Peer> peers;  // all ranks
  MPI_Comm roll_call;
};

}  // namespace

std::shared_ptr<Group> join_group(Place& place) {
  if (launched_processes() == 1) return std::make_shared<Group>();
  auto group = std::make_shared<MpiGroup>(place);
  if (group->size < launched_processes())
    throw std::runtime_error("MPI connects " + std::to_string(group->size) + " of the " +
                             std::to_string(launched_processes()) + " processes that were started: use the mpirun of " +
                             "the library that `train_gpt --version` names");
  return group;
}

void end_all_ranks(const Group& group, const std::string& why) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::fprintf(stderr, "train_gpt: rank %d on %s: %s\n", group.rank, host, why.c_str());
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

std::string mpi_line() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::istringstream words(std::string(text, static_cast<size_t>(length)).substr(0, std::strcspn(text, ",\n")));
  std::string line = "MPI      ";
  for (std::string word; words >> word;) line += " " + word;
  return line + "\n";
}

#else

std::shared_ptr<Group> join_group(Place&) {
  if (launched_processes() == 1) return std::make_shared<Group>();
  throw std::runtime_error(std::to_string(launched_processes()) +
                           " processes were started together, and this program was built without MPI: build it with "
                           "`make MPI=1`, or leave mpirun or srun out");
}

void end_all_ranks(const Group&, const std::string& why) { throw std::runtime_error(why); }

std::string mpi_line() { return "MPI       no\n"; }

#endif
