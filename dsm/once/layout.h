// What lies where in this process's memory, and what must be equal on two hosts for a process of one to go on on the other: with
// address randomisation off, the same program on the same system, at the same point of its start, is laid out alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid::dsm::once {

// A line of /proc/self/maps (proc_pid_maps(5)).
struct MappedRange {
  std::uintptr_t begin = 0, end = 0;
  int protection = 0;  // in mprotect()'s terms
  bool is_shared = false;
  std::uint64_t offset = 0;
  std::string_view name;  // a file's path, "[heap]", or nothing

  bool is_stack() const { return name == "[stack]"; }
  // The kernel's own pages, which every process has.
  bool is_kernels() const { return name.starts_with("[v") || name.starts_with("[uprobes"); }
  bool is_of_file() const { return name.starts_with('/'); }
};

// Takes the first line off `text`; the name is a part of it. False: there is none. Allocates nothing.
bool take_line(std::string_view* text, MappedRange* range);

// The text of /proc/self/maps. Ends the process with a message if it cannot be read.
std::string mapped_ranges_text();
std::vector<MappedRange> ranges_in(std::string_view text);

// A line for each thing that must be equal: build ids of the program and its libraries, processor, addresses.
std::string layout_text(std::string_view ranges);
// How two of them differ, for a message, "'page 4096' there, 'page 16384' here"; empty: they are equal.
std::string difference_of_layouts(std::string_view there, std::string_view here);

}  // namespace braid::dsm::once
