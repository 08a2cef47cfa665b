// The calls that led to a place in the program, as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace braid::dsm {

// The innermost calls of the context that a signal handler was given, the interrupted instruction first: a line for
// each, "#0 function(arguments) at file:line" or, without debugging information, "#0 function" or "#0 0x1234". Inlined
// functions have lines of their own. Each line is passed to write(text, length), its end included. For signal handlers:
// memory comes from the system, not from the C library's heap.
void write_stack_trace(const void* context, void (*write)(const char* text, std::size_t length));

// The calls that led here, the innermost first, as addresses inside the calling instructions. Returns how many of
// `calls` were filled. Any thread, but no signal handler.
std::size_t calls_to_here(std::span<std::uintptr_t> calls);
// The innermost of the calls that is the program's own, not the runtime's: "function at file:line", or less where
// debugging information is missing; empty if there is none. The first call reads debugging information, which takes
// milliseconds. Any thread, but no signal handler.
std::string place_in_program(std::span<const std::uintptr_t> calls);
// Of the calls that led here, for messages: " in function at file:line", or less; may be empty.
std::string place_of_call();

// The variable of the program that has the byte at `address`.
struct DataSymbol {
  std::string name;         // "total", "solve(int)::calls"; empty: none, or the program is stripped
  std::string linker_name;  // "total", "_ZZ5solveiE5calls"
  std::uintptr_t first = 0;
  std::size_t bytes = 0;
};
// Any thread, but no signal handler.
DataSymbol data_symbol(std::uintptr_t address);

}  // namespace braid::dsm
