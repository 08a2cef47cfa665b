#include "dsm/program/collective_call.h"

#include <fmt/core.h>

#include <iterator>

#include "dsm/api.h"
#include "dsm/program/host.h"

namespace braid::dsm {

const char* text_of(CallKind kind) {
  switch (kind) {
    case CallKind::kNone:
      return "nothing";
    case CallKind::kJoin:
      return "joining";
    case CallKind::kAllocate:
      return "allocate()";
    case CallKind::kParallel:
      return "parallel()";
    case CallKind::kFinish:
      return "finish()";
    case CallKind::kLeave:
      return "the departure";
    case CallKind::kBarrier:
      return "barrier()";
  }
  return "an unknown call";
}

namespace {

std::string text_of_placement(const CollectiveCall& call) {
  switch (static_cast<Placement::Kind>(call.numbers[1])) {
    case Placement::Kind::kBlock:
      return "block";
    case Placement::Kind::kCyclic:
      return "cyclic";
    case Placement::Kind::kCluster:
      return fmt::format("on cluster {}", call.numbers[2]);
    case Placement::Kind::kFirstTouch:
      return "first touch";
  }
  return "unknown placement";
}

std::string join_difference(unsigned self, const CollectiveCall& mine, unsigned peer,
                            const CollectiveCall& theirs) {
  static constexpr const char* kNumbers[] = {
      "runtime version",           "BRAID_CLUSTERS",  "BRAID_COMPUTE", "BRAID_HEAP_MIB",
      "BRAID_PROTOCOL (0: eager)", "BRAID_PAGE_BYTES"};
  for (std::size_t i = 0; i < std::size(kNumbers); ++i) {
    if (mine.numbers[i] != theirs.numbers[i]) {
      return fmt::format(
          "{} is {} here in cluster {}, but {} in cluster {}: it must be the same in all clusters",
          kNumbers[i], mine.numbers[i], self, theirs.numbers[i], peer);
    }
  }
  if (mine.name == theirs.name) {
    return fmt::format(
        "cluster {} runs another build of '{}' (build id {:016x}...) than cluster {} ({:016x}...): addresses of functions and "
        "variables differ; give all clusters the same file",
        self, mine.name.data(), mine.build, peer, theirs.build);
  }
  return fmt::format("cluster {} runs '{}', but cluster {} runs '{}': all clusters run the same program",
                     self, mine.name.data(), peer, theirs.name.data());
}

}  // namespace

CollectiveCall join_call(std::uint64_t version, const Shape& shape, const std::string& program,
                         std::uint64_t build) {
  CollectiveCall call;
  call.kind = CallKind::kJoin;
  call.numbers = {version,
                  shape.clusters,
                  shape.compute,
                  std::uint64_t{shape.heap_bytes()} >> 20,
                  static_cast<std::uint64_t>(shape.protocol),
                  shape.page_length.bytes()};
  call.build = build;
  program.copy(call.name.data(), call.name.size() - 1);
  return call;
}

CollectiveCall allocation_call(const Allocation& allocation) {
  CollectiveCall call;
  call.kind = CallKind::kAllocate;
  call.numbers = {allocation.bytes,
                  static_cast<std::uint64_t>(allocation.placement.kind),
                  allocation.placement.cluster,
                  0,
                  0,
                  0};
  return call;
}

std::string difference(unsigned self, const CollectiveCall& mine, unsigned peer,
                       const CollectiveCall& theirs) {
  if (mine.kind != theirs.kind) {
    return fmt::format(
        "cluster {} called {} where cluster {} called {}: all clusters must make the same calls", self,
        text_of(mine.kind), peer, text_of(theirs.kind));
  }
  if (mine.kind == CallKind::kJoin) return join_difference(self, mine, peer, theirs);
  return fmt::format(
      "cluster {} allocates {} bytes ({}) where cluster {} allocates {} bytes ({}): all clusters must make "
      "the same allocations in the same order",
      self, mine.numbers[0], text_of_placement(mine), peer, theirs.numbers[0], text_of_placement(theirs));
}

}  // namespace braid::dsm
