// The calls that all clusters make together, and the arguments that must be equal in all of them.
//
// So clusters that make different calls are found at the first difference, with both calls named, instead of
// computing on different data or waiting for ever.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace braid::dsm {

struct Allocation;
struct Shape;

// kBarrier: barrier_of_clusters() of dsm/threads.h, in a simulation alone: live it is a barrier of the page engine.
enum class CallKind : std::uint32_t { kNone, kHello, kAllocate, kParallel, kFinish, kGoodbye, kBarrier };
// The name of the call, for messages: "allocate()".
const char* text_of(CallKind kind);

// A call and its arguments.
struct CollectiveCall {
  CallKind kind = CallKind::kNone;
  // kHello: version, clusters, compute nodes, MiB of heap. kAllocate: bytes, kind of placement, its cluster.
  std::array<std::uint64_t, 4> numbers{};
  std::array<char, 32> name{};  // kHello: the program's, ended by a zero
  bool operator==(const CollectiveCall&) const = default;
};

// `version`: of the protocol that the clusters' processes speak.
CollectiveCall hello_facts(std::uint64_t version, const Shape& shape, const std::string& program);
CollectiveCall allocation_facts(const Allocation& allocation);

// Of two calls that are not equal: what each cluster does, for the programmer.
std::string difference(unsigned self, const CollectiveCall& mine, unsigned peer,
                       const CollectiveCall& theirs);

}  // namespace braid::dsm
