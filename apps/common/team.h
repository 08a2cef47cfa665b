// The compute nodes of a cluster as a team that divides loops: parallel()'s threads with fixed shares, or
// oneTBB's with whatever part of the cluster's share is next. The same program text runs on either.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/common/arguments.h"
#include "dsm/api.h"
#include "dsm/threads.h"

#if !defined(BRAID_SIMULATED)
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>
#endif

namespace braid::apps {

// One compute node of parallel().
class NodeTeam {
 public:
  explicit NodeTeam(dsm::Node& node) : node_(node) {}
  // Calls body(range) for parts of 0 .. n that all teams' parts cover once.
  template <class Body>
  void divide(std::size_t n, Body&& body) {
    body(node_.share(n));
  }
  void barrier() { node_.barrier(); }
  bool reports() const { return node_.id() == 0; }

 private:
  dsm::Node& node_;
};

#if defined(BRAID_SIMULATED)

// All compute nodes of a cluster, as oneTBB would have them if it divided loops evenly: in simulation they
// are fibres, and oneTBB's threads have no part in virtual time.
class TbbTeam {
 public:
  template <class Body>
  void divide(std::size_t n, Body&& body) {
    const std::size_t nodes = dsm::nodes_per_cluster();
    const std::size_t parts = dsm::clusters() * nodes;
    dsm::run_on_cluster([&](unsigned local) {
      const std::size_t part = dsm::cluster() * nodes + local;
      body(dsm::Range(n * part / parts, n * (part + 1) / parts));
    });
  }
  void barrier() { dsm::barrier(); }
  bool reports() const { return dsm::cluster() == 0; }
};

#else

// All compute nodes of a cluster, as threads of oneTBB: an arena with as many slots as there are compute
// nodes, of which the initial thread has the first. Made by the initial thread; used outside parallel(). No
// lock and no barrier inside a loop's body: a thread that waited there could be the one that has the others'
// parts to do. Destroyed before finish(): a worker may enter the arena after the loop that called it, and is a compute node
// from then on.
class TbbTeam {
 public:
  TbbTeam()
      : threads_(tbb::global_control::max_allowed_parallelism, dsm::nodes_per_cluster()),
        arena_(static_cast<int>(dsm::nodes_per_cluster()), /*reserved_for_masters=*/1),
        binder_(arena_) {}

  template <class Body>
  void divide(std::size_t n, Body&& body) {
    const std::size_t clusters = dsm::clusters();
    const tbb::blocked_range<std::size_t> share(n * dsm::cluster() / clusters,
                                                n * (dsm::cluster() + 1) / clusters);
    arena_.execute([&] {
      tbb::parallel_for(share, [&](const tbb::blocked_range<std::size_t>& part) {
        body(dsm::Range(part.begin(), part.end()));
      });
    });
  }
  void barrier() { dsm::barrier(); }
  bool reports() const { return dsm::cluster() == 0; }

 private:
  // Makes the thread in slot k compute node k, for as long as it is there.
  class Binder final : public tbb::task_scheduler_observer {
   public:
    explicit Binder(tbb::task_arena& arena) : tbb::task_scheduler_observer(arena) { observe(true); }
    ~Binder() override { observe(false); }
    void on_scheduler_entry(bool is_worker) override {
      if (is_worker) adopted().emplace(static_cast<unsigned>(tbb::this_task_arena::current_thread_index()));
    }
    void on_scheduler_exit(bool is_worker) override {
      if (is_worker) adopted().reset();
    }

   private:
    static std::optional<dsm::AdoptedThread>& adopted() {
      static thread_local std::optional<dsm::AdoptedThread> thread;
      return thread;
    }
  };

  tbb::global_control threads_;  // else oneTBB has no more of them than there are processors
  tbb::task_arena arena_;
  Binder binder_;
};

#endif

// `--intra`, and what it chose.
class Intra {
 public:
  explicit Intra(Arguments& arguments) {
    arguments.choice("--intra", choice_, "What runs the loops inside a cluster: nodes (of parallel()) or tbb",
                     {"nodes", "tbb"});
  }
  // Calls program(team) on every compute node, or in every cluster for all of its nodes. After init(), once.
  template <class Program>
  void run(Program&& program) {
    if (choice_ == "tbb") {
      TbbTeam team;
      program(team);
    } else {
      dsm::parallel([&](dsm::Node& node) { program(NodeTeam(node)); });
    }
  }

 private:
  std::string choice_ = "nodes";
};

}  // namespace braid::apps
