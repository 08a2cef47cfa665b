// The steps of a program that all clusters take together, and what they must agree on.
//
// So programs that run out of step are found at the first difference, with both sides named, instead of
// computing on different data or waiting for ever.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace braid::dsm {

struct Allocation;
struct Shape;

// kBarrier: dsm/threads.h; live it is a barrier of the page engine like others, and no step.
enum class Step : std::uint32_t { kNone, kHello, kAllocate, kParallel, kFinish, kGoodbye, kBarrier };
// As a person knows it: the call that takes it.
const char* text_of(Step step);

// What a step is about: must be equal in all clusters.
struct StepFacts {
  Step step = Step::kNone;
  // kHello: version, clusters, compute nodes, MiB of heap. kAllocate: bytes, kind of placement, its cluster.
  std::array<std::uint64_t, 4> numbers{};
  std::array<char, 32> name{};  // kHello: the program's, ended by a zero
  bool operator==(const StepFacts&) const = default;
};

// `version` is that of whatever processes of the clusters say to each other.
StepFacts hello_facts(std::uint64_t version, const Shape& shape, const std::string& program);
StepFacts allocation_facts(const Allocation& allocation);

// Of two that are not equal: what this cluster does and what another one, for the person who can mend it.
std::string difference(unsigned self, const StepFacts& mine, unsigned peer, const StepFacts& theirs);

}  // namespace braid::dsm
