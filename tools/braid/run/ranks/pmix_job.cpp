#include "tools/braid/run/ranks/pmix_job.h"

#include <dlfcn.h>
#include <pmix.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "tools/braid/ask.h"
#include "tools/braid/number_in.h"

namespace braid::cli {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";
constexpr const char* kKey = "braid.rank";
constexpr std::chrono::seconds kAllCome(60);
// What makes a process one of several.
constexpr const char* kCounts[] = {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE"};

// The functions of libpmix that are used here.
struct Library {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence_nb) fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
};

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

// It stays loaded: what its components leave behind must find it.
Result<Library> load() {
  void* const file = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (file == nullptr)
    return error(
        "PMIx: {}; install libpmix2 on every host, or start the run by 'braid run --hosts' (ssh) or '--launcher slurm'",
        ::dlerror());
  Library all;
  if (!find(file, "PMIx_Init", all.init) || !find(file, "PMIx_Finalize", all.finalize) ||
      !find(file, "PMIx_Put", all.put) || !find(file, "PMIx_Commit", all.commit) ||
      !find(file, "PMIx_Fence_nb", all.fence) || !find(file, "PMIx_Get", all.get) ||
      !find(file, "PMIx_Error_string", all.error_string))
    return error("PMIx: {} is not the library of this name: {}", kLibrary, ::dlerror());
  return all;
}

// No signal of this process is for the threads that are started meanwhile.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

// An operation that libpmix's thread ends.
struct Pending {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<pmix_status_t> status;
};

class Job {
 public:
  static Result<Job> join() {
    const Result<Library> library = load();
    if (!library) return library.error();
    Job job(*library);
    pmix_status_t status = PMIX_SUCCESS;
    {
      const BlockedSignals blocked;
      status = library->init(&job.self_, nullptr, 0);
    }
    if (status != PMIX_SUCCESS)
      return job.failure(
          "the server of this job does not answer", status,
          "start the run by mpirun or 'srun --mpi=pmix' (srun --mpi=list tells whether this Slurm has it), or by 'braid run "
          "--hosts'");
    return job;
  }

  Result<void> tell(const std::string& text) {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = const_cast<char*>(text.c_str());  // it is copied
    pmix_status_t status = library_.put(PMIX_GLOBAL, kKey, &value);
    if (status == PMIX_SUCCESS) status = library_.commit();
    if (status != PMIX_SUCCESS)
      return failure("the server does not take what this rank says", status, kOther);
    return wait_for_all();
  }

  Result<std::vector<std::string>> texts() {
    const Result<Value> size = get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    if (!size) return size.error();
    if ((*size)->type != PMIX_UINT32) return error("PMIx: the server does not know how many ranks there are");
    std::vector<std::string> all;
    for (pmix_rank_t rank = 0; rank < (*size)->data.uint32; ++rank) {
      const Result<Value> text = get(rank, kKey);
      if (!text) return error("rank {}: {}", rank, text.error().text);
      if ((*text)->type != PMIX_STRING) return error("rank {} is no braid of this version", rank);
      all.emplace_back((*text)->data.string);
    }
    return all;
  }

  unsigned rank() const { return self_.rank; }
  // Also after a failure: a rank that ends without it ends the whole job.
  void leave() { (void)library_.finalize(nullptr, 0); }

 private:
  static constexpr const char* kOther = "start the run by 'braid run --hosts' instead";
  struct Release {
    void operator()(pmix_value_t* value) const {
      if (value->type == PMIX_STRING) std::free(value->data.string);
      std::free(value);
    }
  };
  using Value = std::unique_ptr<pmix_value_t, Release>;

  explicit Job(const Library& library) : library_(library) {}

  Error failure(const char* what, pmix_status_t status, const char* cure) const {
    return error("PMIx: {}: {}; {}", what, library_.error_string(status), cure);
  }

  Result<void> wait_for_all() {
    pmix_info_t collect{};
    std::strcpy(collect.key, PMIX_COLLECT_DATA);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    // Both stay: libpmix has them after we have given up.
    auto* const info = new pmix_info_t(collect);
    auto* const pending = new Pending;
    const auto ended = [](pmix_status_t status, void* of) {
      auto* const p = static_cast<Pending*>(of);
      const std::lock_guard<std::mutex> lock(p->mutex);
      p->status = status;
      p->changed.notify_one();
    };
    pmix_status_t status = library_.fence(nullptr, 0, info, 1, ended, pending);
    if (status == PMIX_SUCCESS) {
      std::unique_lock<std::mutex> lock(pending->mutex);
      if (!pending->changed.wait_for(lock, kAllCome, [&] { return pending->status.has_value(); }))
        return error(
            "PMIx: for {} s some ranks of the job have not come; what they say, if they say anything, is above",
            kAllCome.count());
      status = *pending->status;
    }
    if (status != PMIX_SUCCESS) return failure("not all ranks of the job have come", status, kOther);
    return {};
  }

  Result<Value> get(pmix_rank_t rank, const char* key) {
    pmix_proc_t process = self_;
    process.rank = rank;
    pmix_value_t* value = nullptr;
    const pmix_status_t status = library_.get(&process, key, nullptr, 0, &value);
    if (status != PMIX_SUCCESS || value == nullptr)
      return failure("the server does not say what was told to it", status, kOther);
    return Value(value);
  }

  Library library_;
  pmix_proc_t self_{};
};

}  // namespace

bool is_pmix_rank() {
  return !variable("PMIX_NAMESPACE").empty() && !variable("PMIX_RANK").empty();
}

std::optional<unsigned> started_processes() {
  std::optional<unsigned> most;
  for (const char* const name : kCounts)
    if (const std::optional<unsigned> count = number_in<unsigned>(variable(name)))
      most = std::max(most.value_or(0), *count);
  return most;
}

Result<JobTexts> exchange_in_job(const std::string& own) {
  Result<Job> job = Job::join();
  if (!job) return job.error();
  const Result<void> told = job->tell(own);
  Result<std::vector<std::string>> texts =
      told ? job->texts() : Result<std::vector<std::string>>(told.error());
  const unsigned rank = job->rank();
  job->leave();
  for (const char* const name : {"PMIX_NAMESPACE", "PMIX_RANK"}) ::unsetenv(name);
  for (const char* const name : kCounts) ::unsetenv(name);
  if (!texts) return texts.error();
  return JobTexts{rank, std::move(*texts)};
}

}  // namespace braid::cli
