// The next of what waits to be asked for.
#pragma once

#include <deque>
#include <optional>
#include <utility>

namespace braid {

// Takes the first one out; nullopt when there is none.
template <class T>
std::optional<T> take_first(std::deque<T>& queue) {
  if (queue.empty()) return std::nullopt;
  std::optional<T> first(std::move(queue.front()));
  queue.pop_front();
  return first;
}

}  // namespace braid
