// Assertions that stay on in release. A failed CHECK is a programming error: it prints the condition, both
// values and the place, then aborts. Errors from outside (a bad packet, a full ring) never reach a CHECK.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace braid {

// The failure paths are cold and out of line, so a CHECK on a hot path costs a comparison and a jump.
[[noreturn, gnu::cold]] void check_failed(const char* file, int line, const char* condition);
[[noreturn, gnu::cold]] void check_failed(const char* file, int line, const char* condition,
                                          const std::string& values);

namespace detail {
std::string printed_integer(long long value);
std::string printed_integer(unsigned long long value);
std::string printed_real(double value);
std::string printed_pointer(const void* value);

// Formats numbers, texts, pointers and our own types (ids, sequence
// numbers and times, as their number). Any other value is "(unprintable)".
template <class T>
[[gnu::cold]] std::string printed(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return printed(+static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return printed_integer(static_cast<long long>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return printed_integer(static_cast<unsigned long long>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return printed_real(value);
  } else if constexpr (std::is_array_v<T> && std::is_convertible_v<const T&, std::string_view>) {
    return value;
  } else if constexpr (std::is_convertible_v<const T&, const char*>) {
    return value == nullptr ? "(null)" : value;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return std::string(std::string_view(value));
  } else if constexpr (std::is_pointer_v<T>) {
    return printed_pointer(value);
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? printed(*value) : std::string("(none)");
  } else if constexpr (requires { value.value(); }) {
    return printed(value.value());
  } else if constexpr (requires { value.ns(); }) {
    return printed(value.ns()) + " ns";
  } else {
    return "(unprintable)";
  }
}

template <class A, class B>
[[noreturn, gnu::cold, gnu::noinline]] void comparison_failed(const char* file, int line,
                                                              const char* condition, const A& a, const B& b) {
  check_failed(file, line, condition, printed(a) + " and " + printed(b));
}
}  // namespace detail
}  // namespace braid

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      ::braid::check_failed(__FILE__, __LINE__, #condition); \
  } while (false)

#define BRAID_CHECK_OP(op, a, b)                                                               \
  do {                                                                                         \
    const auto& braid_check_a = (a);                                                           \
    const auto& braid_check_b = (b);                                                           \
    if (!(braid_check_a op braid_check_b)) [[unlikely]]                                        \
      ::braid::detail::comparison_failed(__FILE__, __LINE__, #a " " #op " " #b, braid_check_a, \
                                         braid_check_b);                                       \
  } while (false)

#define CHECK_EQ(a, b) BRAID_CHECK_OP(==, a, b)
#define CHECK_NE(a, b) BRAID_CHECK_OP(!=, a, b)
#define CHECK_LT(a, b) BRAID_CHECK_OP(<, a, b)
#define CHECK_LE(a, b) BRAID_CHECK_OP(<=, a, b)
#define CHECK_GT(a, b) BRAID_CHECK_OP(>, a, b)
#define CHECK_GE(a, b) BRAID_CHECK_OP(>=, a, b)
