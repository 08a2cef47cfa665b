// Removes the first element of a queue.
#pragma once

#include <deque>
#include <optional>
#include <utility>

namespace braid {

// Removes and returns the first element; nullopt if the queue is empty.
template <class T>
std::optional<T> take_first(std::deque<T>& queue) {
  if (queue.empty()) return std::nullopt;
  std::optional<T> first(std::move(queue.front()));
  queue.pop_front();
  return first;
}

}  // namespace braid
