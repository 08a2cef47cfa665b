// Numbers of processors, as the kernel counts them: lists of them as text, and threads that run on one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

// The most that a set of the C library (cpu_set_t) can hold.
inline constexpr unsigned kMaxProcessors = 1024;

// "0,2,5": the processor of each of several threads, in their order. Nothing: it is no such list. Empty text: an empty list.
std::optional<std::vector<unsigned>> parse_processors(std::string_view text);
std::string text_of_processors(std::span<const unsigned> processors);

// "0-3,8", as taskset and Slurm write it: a set, ascending and without duplicates. Nothing: it is no such set, or is empty.
std::optional<std::vector<unsigned>> parse_processor_set(std::string_view text);
std::string text_of_processor_set(std::span<const unsigned> ascending);

// The processors that the calling thread may run on, ascending; empty: unknown.
std::vector<unsigned> processors_of_this_thread();
// From now on the calling thread, and threads that it starts, run on these only. Returns 0 or an errno: EINVAL means that the
// process's cpuset has none of them, and the thread runs where it ran before.
int run_on_processors(std::span<const unsigned> processors);

}  // namespace braid
