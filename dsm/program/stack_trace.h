// The calls that led to a place in the program, as text. For signal handlers: memory comes from the system, not from
// the C library's heap.
#pragma once

#include <cstddef>
#include <span>

namespace braid::dsm {

// The innermost calls of the context that a signal handler was given, the interrupted instruction first: a line for
// each, "#0 function(arguments) at file:line" or, without debugging information, "#0 function" or "#0 0x1234". Inlined
// functions have lines of their own. Each line is passed to write(text, length), its end included.
void write_stack_trace(const void* context, void (*write)(const char* text, std::size_t length));

}  // namespace braid::dsm
