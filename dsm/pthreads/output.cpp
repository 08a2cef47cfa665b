// Output to standard streams: a cancellation point, and kept apart in simulation (streams.h, Printing).
#include <stdarg.h>
#include <stdio.h>

#include "dsm/pthreads/cancellation.h"
#include "dsm/pthreads/streams.h"
#include "dsm/pthreads/wrapped.h"

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int __wrap_vfprintf(FILE* stream, const char* format, va_list arguments);
int __wrap_fputc(int character, FILE* stream);

int WRAPPED(vprintf)(const char* format, va_list arguments) {
  return WRAPPED(vfprintf)(stdout, format, arguments);
}
int WRAPPED(printf)(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = WRAPPED(vfprintf)(stdout, format, arguments);
  va_end(arguments);
  return written;
}
int WRAPPED(__vprintf_chk)(int, const char* format, va_list arguments) {
  return WRAPPED(vfprintf)(stdout, format, arguments);
}
int WRAPPED(__printf_chk)(int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = WRAPPED(vfprintf)(stdout, format, arguments);
  va_end(arguments);
  return written;
}
int WRAPPED(puts)(const char* text) {
  test_cancellation();
  const Printing printing;
  return ::puts(text);
}
int WRAPPED(putchar)(int character) {
  return WRAPPED(fputc)(character, stdout);
}
void WRAPPED(perror)(const char* text) {
  const Printing printing;
  ::perror(text);
}

}  // extern "C"
