// Output of programs for simulation. The threads of a cluster are fibres of one thread of the system, so a stream's own lock
// does not keep them apart: one may wait for a page of its stack, or of a string, inside such a call while others go on. A lock
// of the machine does, in the order of their clocks.
#include <stdarg.h>
#include <stdio.h>

#include "dsm/program/host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

constinit thread_local bool prints __attribute__((tls_model("initial-exec"))) = false;

bool has_others() {
  const Host* const host = started() && !is_forked_child() ? current_host() : nullptr;
  return host != nullptr && host->shape().compute > 1 && host->current_node() >= 0;
}

class Printing {
 public:
  Printing() : takes_(!prints && has_others()) {
    if (!takes_) return;
    on_private([] { calling_node_of("stdio").lock(kOutputLock); });
    prints = true;
  }
  ~Printing() {
    if (!takes_) return;
    prints = false;
    on_private([] { calling_node_of("stdio").unlock(kOutputLock); });
  }
  Printing(const Printing&) = delete;
  Printing& operator=(const Printing&) = delete;

 private:
  const bool takes_;
};

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

// `braid sim` finds it in the program's file: each thread has thread-local variables of its own.
extern const char braid_threads_have_variables;
const char braid_threads_have_variables = 1;

int WRAPPED(vfprintf)(FILE* file, const char* format, va_list arguments) {
  const Printing printing;
  return ::vfprintf(file, format, arguments);
}
int WRAPPED(vprintf)(const char* format, va_list arguments) {
  return WRAPPED(vfprintf)(stdout, format, arguments);
}
int WRAPPED(fprintf)(FILE* file, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = WRAPPED(vfprintf)(file, format, arguments);
  va_end(arguments);
  return written;
}
int WRAPPED(printf)(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = WRAPPED(vfprintf)(stdout, format, arguments);
  va_end(arguments);
  return written;
}
int WRAPPED(__vfprintf_chk)(FILE* file, int, const char* format, va_list arguments) {
  return WRAPPED(vfprintf)(file, format, arguments);
}
int WRAPPED(__vprintf_chk)(int, const char* format, va_list arguments) {
  return WRAPPED(vfprintf)(stdout, format, arguments);
}
int WRAPPED(__fprintf_chk)(FILE* file, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = WRAPPED(vfprintf)(file, format, arguments);
  va_end(arguments);
  return written;
}
int WRAPPED(__printf_chk)(int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = WRAPPED(vfprintf)(stdout, format, arguments);
  va_end(arguments);
  return written;
}
int WRAPPED(puts)(const char* text) {
  const Printing printing;
  return ::puts(text);
}
int WRAPPED(fputs)(const char* text, FILE* file) {
  const Printing printing;
  return ::fputs(text, file);
}
int WRAPPED(fputc)(int character, FILE* file) {
  const Printing printing;
  return ::fputc(character, file);
}
int WRAPPED(putc)(int character, FILE* file) {
  return WRAPPED(fputc)(character, file);
}
int WRAPPED(putchar)(int character) {
  return WRAPPED(fputc)(character, stdout);
}
std::size_t WRAPPED(fwrite)(const void* memory, std::size_t bytes, std::size_t count, FILE* file) {
  const Printing printing;
  return ::fwrite(memory, bytes, count, file);
}
int WRAPPED(fflush)(FILE* file) {
  const Printing printing;
  return ::fflush(file);
}
void WRAPPED(perror)(const char* text) {
  const Printing printing;
  ::perror(text);
}

}  // extern "C"
