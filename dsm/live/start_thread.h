// A thread of the runtime; where the system gives none, the process ends with the cause and the cure.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "base/system_error.h"
#include "dsm/program/failure.h"

namespace braid::dsm {

template <class... Call>
std::thread start_thread(const char* what, Call&&... call) {
  try {
    return std::thread(std::forward<Call>(call)...);
  } catch (const std::system_error& e) {
    fail("cannot start the thread {}: {}", what, cause_and_cure(e.code().value()).c_str());
  }
}

}  // namespace braid::dsm
