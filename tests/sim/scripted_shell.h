// A cluster's compute nodes that do what a script says: the other side of sim/shell/control.h, inside the
// test. It keeps to what control.h asks of a shell, and touches the heap as a program would: an access that
// the protections forbid becomes a request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "dsm/program/host.h"
#include "sim/simulated_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::sim {

struct Act {
  enum class Kind : std::uint8_t {
    kCompute,
    kRead,
    kWrite,
    kLock,
    kUnlock,
    kBarrier,
    kSync,
    kAdd,
    kResetFigures
  };
  Kind kind = Kind::kCompute;
  std::int64_t cycles = 0;
  std::uint32_t at = 0;     // byte address of a 64-bit word in the heap
  std::uint64_t value = 0;  // written, or added
  std::uint32_t id = 0;
  dsm::SyncCall sync = {};
};
using Script = std::vector<Act>;

inline Act compute(std::int64_t cycles) {
  return {.kind = Act::Kind::kCompute, .cycles = cycles};
}
inline Act read_word(std::uint32_t at) {
  return {.kind = Act::Kind::kRead, .at = at};
}
inline Act write_word(std::uint32_t at, std::uint64_t value) {
  return {.kind = Act::Kind::kWrite, .at = at, .value = value};
}
// A load and a store.
inline Act add_word(std::uint32_t at, std::uint64_t value) {
  return {.kind = Act::Kind::kAdd, .at = at, .value = value};
}
inline Act lock(std::uint32_t id) {
  return {.kind = Act::Kind::kLock, .id = id};
}
inline Act unlock(std::uint32_t id) {
  return {.kind = Act::Kind::kUnlock, .id = id};
}
inline Act barrier(std::uint32_t id = 0) {
  return {.kind = Act::Kind::kBarrier, .id = id};
}
inline Act reset_figures() {
  return {.kind = Act::Kind::kResetFigures};
}
inline Act call(const dsm::SyncCall& sync) {
  return {.kind = Act::Kind::kSync, .sync = sync};
}

class ScriptedShell final : public Shell {
 public:
  // One allocation of `pages` by all clusters together, then the scripts as the nodes' function of one
  // parallel().
  ScriptedShell(std::vector<Script> scripts, std::uint32_t heap_pages, std::uint32_t pages, dsm::Homes homes)
      : scripts_(std::move(scripts)),
        pages_(pages),
        homes_(homes),
        control_(std::make_unique<Control>()),
        heap_(std::size_t{heap_pages} * dsm::kPageBytes),
        access_(heap_pages, dsm::Access::kNone),
        at_(scripts_.size()),
        begun_(scripts_.size()),
        faults_(scripts_.size()),
        reads(scripts_.size()),
        results(scripts_.size()) {
    control_->counted = true;
  }

  Control& control() override { return *control_; }
  std::byte* heap() override { return heap_.data(); }

  // All shells of the machine, by cluster: from now on this one passes the baton on, as programs do.
  void pass_on_to(const std::vector<Shell*>& shells) { others_ = shells; }
  bool passes_on() const override { return !others_.empty(); }
  std::uint64_t passed_on() const { return passed_on_; }

  Result<void> run() override {
    Control& c = *control_;
    take_turn();
    if (c.asking != Control::kNobody || c.next == Control::kEngine) return {};
    ++passed_on_;
    return others_[c.next]->run();
  }

  // The values that node n read, in order, and the results of its calls.
  const std::vector<std::uint64_t>& read_by(unsigned n) const { return reads[n]; }
  const std::vector<std::uint64_t>& results_of(unsigned n) const { return results[n]; }
  // The most that any one access of any node had.
  unsigned max_faults() const { return max_faults_; }

 private:
  void take_turn() {
    Control& c = *control_;
    for (std::uint32_t i = 0; i < c.protection_runs; ++i) {
      const ProtectionRun& p = c.protections[i];
      std::fill_n(access_.begin() + p.first, p.count, p.access);
    }
    for (;;) {
      unsigned first = c.compute;
      std::int64_t second = std::numeric_limits<std::int64_t>::max();
      for (unsigned n = 0; n < c.compute; ++n) {
        if (!c.nodes[n].runnable) continue;
        if (first == c.compute || c.nodes[n].clock < c.nodes[first].clock) {
          if (first != c.compute) second = std::min(second, c.nodes[first].clock);
          first = n;
        } else {
          second = std::min(second, c.nodes[n].clock);
        }
      }
      if (first == c.compute || c.nodes[first].clock >= c.until) {
        c.asking = Control::kNobody;
        return;
      }
      const std::int64_t limit =
          std::min(c.until, second == std::numeric_limits<std::int64_t>::max() ? second : second + c.quantum);
      if (step(first, limit)) {
        c.asking = first;
        return;
      }
    }
  }

  // Runs node n until its clock is at `limit` or it asks for something: then true.
  bool step(unsigned n, std::int64_t limit) {
    NodeControl& node = control_->nodes[n];
    while (node.clock < limit) {
      std::size_t& at = at_[n];
      if (n == 0 && at < kPreamble) return preamble(node, at++);
      const std::size_t offset = n == 0 ? kPreamble : 0;
      const Script& script = scripts_[n];
      if (at - offset >= script.size()) {
        const std::size_t past = at++ - offset - script.size();
        if (past == 0) return ask(node, {.kind = Request::Kind::kBarrier, .id = dsm::kOwnBarrier.value()});
        if (past == 1) return ask(node, {.kind = Request::Kind::kIdle});
        return ask(node, call(dsm::CallKind::kFinish));
      }
      const Act& act = script[at - offset];
      if (pending_ == n + 1) {
        results[n].push_back(node.result);
        pending_ = 0;
      }
      switch (act.kind) {
        case Act::Kind::kCompute:
          // As a block of a program: its charge comes first, then it runs if the clock allows.
          if (!begun_[n]) {
            node.clock += act.cycles;
            begun_[n] = true;
            if (node.clock >= limit) return false;
          }
          begun_[n] = false;
          ++at;
          break;
        case Act::Kind::kRead:
        case Act::Kind::kWrite:
        case Act::Kind::kAdd: {
          const std::uint32_t page = act.at / dsm::kPageBytes;
          const bool write = act.kind != Act::Kind::kRead;
          const dsm::Access needed = write ? dsm::Access::kWrite : dsm::Access::kRead;
          if (access_[page] < needed) {
            max_faults_ = std::max(max_faults_, ++faults_[n]);
            return ask(node, {.kind = Request::Kind::kFault, .write = write, .page = page});
          }
          faults_[n] = 0;
          std::byte* const word = heap_.data() + act.at;
          if (act.kind == Act::Kind::kRead)
            reads[n].push_back(load<std::uint64_t>(word));
          else
            store(word, act.kind == Act::Kind::kAdd ? load<std::uint64_t>(word) + act.value : act.value);
          ++at;
          break;
        }
        case Act::Kind::kLock:
          ++at;
          return ask(node, {.kind = Request::Kind::kLock, .id = act.id});
        case Act::Kind::kUnlock:
          ++at;
          return ask(node, {.kind = Request::Kind::kUnlock, .id = act.id});
        case Act::Kind::kBarrier:
          ++at;
          return ask(node, {.kind = Request::Kind::kBarrier, .id = act.id});
        case Act::Kind::kResetFigures:
          ++at;
          return ask(node, {.kind = Request::Kind::kResetFigures});
        case Act::Kind::kSync:
          ++at;
          pending_ = n + 1;
          return ask(node, {.kind = Request::Kind::kSync, .sync = act.sync});
      }
    }
    return false;
  }

  static constexpr std::size_t kPreamble = 3;
  bool preamble(NodeControl& node, std::size_t at) {
    if (at == 0) return ask(node, call(dsm::CallKind::kJoin));
    if (at == 1) return ask(node, call(dsm::CallKind::kAllocate, pages_, homes_));
    return ask(node, call(dsm::CallKind::kParallel));
  }
  static Request call(dsm::CallKind kind, std::uint32_t pages = 0, dsm::Homes homes = {}) {
    return {.kind = Request::Kind::kCollective, .pages = pages, .homes = homes, .call = {.kind = kind}};
  }
  static bool ask(NodeControl& node, const Request& request) {
    node.request = request;
    node.runnable = false;
    return true;
  }

  std::vector<Script> scripts_;
  const std::uint32_t pages_;
  const dsm::Homes homes_;
  std::unique_ptr<Control> control_;
  std::vector<std::byte> heap_;
  std::vector<dsm::Access> access_;
  std::vector<std::size_t> at_;
  std::vector<bool> begun_;
  std::vector<unsigned> faults_;  // of the access that each node is about to make
  unsigned max_faults_ = 0;
  unsigned pending_ = 0;
  std::vector<Shell*> others_;
  std::uint64_t passed_on_ = 0;
  std::vector<std::vector<std::uint64_t>> reads;
  std::vector<std::vector<std::uint64_t>> results;
};

}  // namespace braid::sim
