// The collective calls, and the arguments that must be equal in all clusters.
//
// Clusters that make different calls are detected at the first difference, and both
// calls are named. Otherwise they would compute on different data or wait for ever.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace braid::dsm {

struct Allocation;
struct Shape;

// kBarrier: barrier_of_clusters() of dsm/threads.h in simulation; a live run uses a barrier of the engine.
enum class CallKind : std::uint32_t { kNone, kJoin, kAllocate, kParallel, kFinish, kLeave, kBarrier };
// The name of the call, for messages: "allocate()".
const char* text_of(CallKind kind);

// A call and its arguments.
struct CollectiveCall {
  CallKind kind = CallKind::kNone;
  // kJoin: version, clusters, compute nodes, MiB of heap, protocol, bytes of a page. kAllocate: bytes, kind of placement, its cluster.
  std::array<std::uint64_t, 6> numbers{};
  std::uint64_t build = 0;      // kJoin: which build of the program
  std::array<char, 32> name{};  // kJoin: the program's, zero-terminated
  bool operator==(const CollectiveCall&) const = default;
};

// `version`: of the protocol between the clusters' processes. `build`: of the program.
CollectiveCall join_call(std::uint64_t version, const Shape& shape, const std::string& program,
                         std::uint64_t build);
CollectiveCall allocation_call(const Allocation& allocation);

// Describes for the programmer what each cluster does, for two calls that differ.
std::string difference(unsigned self, const CollectiveCall& mine, unsigned peer,
                       const CollectiveCall& theirs);

}  // namespace braid::dsm
