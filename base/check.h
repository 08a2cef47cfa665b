// Assertions that stay on in release. A failed CHECK is a programmer's error: it prints the condition, both
// values and the place, then aborts. The world's errors (a bad packet, a full ring) never reach a CHECK.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace braid {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);

namespace detail {
// Anything fmt can print is printed, our own types (ids, sequence numbers, times) as their number; the rest
// says that it cannot be.
template <class T>
std::string printed(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return fmt::format("{}", +static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (fmt::is_formattable<T>::value) {
    return fmt::format("{}", value);
  } else if constexpr (std::is_pointer_v<T>) {
    return fmt::format("{:#x}", reinterpret_cast<std::uintptr_t>(value));
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? printed(*value) : std::string("(none)");
  } else if constexpr (requires { value.value(); }) {
    return printed(value.value());
  } else if constexpr (requires { value.ns(); }) {
    return fmt::format("{} ns", value.ns());
  } else {
    return "(unprintable)";
  }
}

template <class A, class B>
[[noreturn]] void comparison_failed(const char* file, int line, const char* condition, const A& a,
                                    const B& b) {
  check_failed(file, line, condition, fmt::format("{} and {}", printed(a), printed(b)));
}
}  // namespace detail
}  // namespace braid

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::braid::check_failed(__FILE__, __LINE__, #condition, std::string()); \
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
