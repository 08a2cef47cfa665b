#include "dsm/blocks/blocks.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/bytes.h"
#include "base/check.h"

namespace braid::dsm {

namespace {

constexpr std::size_t pages_of(std::size_t bytes) {
  return round_up(bytes, Blocks::kPage) / Blocks::kPage;
}

std::uintptr_t page_at(std::uintptr_t address) {
  return address - address % Blocks::kPage;
}

}  // namespace

std::size_t Blocks::pages_for(std::size_t bytes, std::size_t aligned_from) {
  if (bytes <= kLargestSmall) return 1;
  if (bytes < aligned_from) return pages_of(bytes + kHeaderBytes);
  return 1 + pages_of(bytes);
}

unsigned Blocks::size_index(std::size_t bytes) {
  return static_cast<unsigned>(std::lower_bound(kSizes.begin(), kSizes.end(), bytes) - kSizes.begin());
}

unsigned Blocks::SmallPage::take_first_free() {
  for (std::size_t word = 0; word < in_use.size(); ++word) {
    const auto bit = static_cast<unsigned>(std::countr_one(in_use[word]));
    if (bit == 64) continue;
    in_use[word] |= std::uint64_t{1} << bit;
    ++used;
    return static_cast<unsigned>(word * 64 + bit);
  }
  CHECK(false);
}

std::optional<Blocks::Taken> Blocks::take(std::size_t bytes, std::size_t aligned_from) {
  if (bytes > kLargestSmall) {
    const std::size_t count = pages_for(bytes, aligned_from);
    const Pages pages = take_pages(count);
    if (pages.first == 0) return std::nullopt;
    const std::uintptr_t block = pages.first + (bytes < aligned_from ? kHeaderBytes : kPage);
    large_.emplace(block, count);
    return Taken{.block = block,
                 .bytes = pages.first + count * kPage - block,
                 .fresh = true,
                 .untouched = pages.untouched};
  }
  const unsigned size = size_index(bytes);
  std::uintptr_t page = 0;
  if (auto& pages = with_room_[size]; !pages.empty()) {
    page = *pages.begin();
  } else {
    page = take_pages(1).first;
    if (page == 0) return std::nullopt;
    small_[page] = {.size = static_cast<std::uint8_t>(size)};
  }
  SmallPage& in = small_.at(page);
  const std::uintptr_t block = page + kHeaderBytes + in.take_first_free() * in.bytes();
  if (in.used == in.room()) with_room_[size].erase(page);
  return Taken{.block = block, .bytes = in.bytes(), .fresh = !in.published};
}

std::optional<unsigned> Blocks::index_of(std::uintptr_t block, const SmallPage& page) {
  const std::size_t offset = block % kPage;
  if (offset < kHeaderBytes || (offset - kHeaderBytes) % page.bytes() != 0) return std::nullopt;
  const auto index = static_cast<unsigned>((offset - kHeaderBytes) / page.bytes());
  return index < page.room() ? std::optional(index) : std::nullopt;
}

void Blocks::publish(std::uintptr_t block) {
  const auto found = small_.find(page_at(block));
  if (found == small_.end()) return;  // a large one: nobody else takes blocks of its pages
  SmallPage& page = found->second;
  page.published = true;
  if (page.used < page.room()) with_room_[page.size].insert(found->first);
}

Blocks::Given Blocks::give(std::uintptr_t block) {
  if (const auto large = large_.find(block); large != large_.end()) {
    const std::size_t count = large->second;
    large_.erase(large);
    used_.add(header_of(block), count);
    return Given::kYes;
  }
  const auto found = small_.find(page_at(block));
  if (found == small_.end()) return Given::kUnknown;
  SmallPage& page = found->second;
  const std::optional<unsigned> index = index_of(block, page);
  if (!index) return Given::kUnknown;
  if (!page.is_in_use(*index)) return Given::kFreeAlready;
  page.in_use[*index / 64] &= ~(std::uint64_t{1} << (*index % 64));
  --page.used;
  auto& pages = with_room_[page.size];
  pages.insert(found->first);
  // The last empty page of a size stays, so that one block that comes and goes does not cost a page each time.
  if (page.used == 0 && pages.size() > 1) {
    const std::uintptr_t first = found->first;
    pages.erase(first);
    small_.erase(found);
    used_.add(first, 1);
  }
  return Given::kYes;
}

std::optional<std::size_t> Blocks::bytes_of(std::uintptr_t block) const {
  if (const auto large = large_.find(block); large != large_.end())
    return header_of(block) + large->second * kPage - block;
  const auto found = small_.find(page_at(block));
  if (found == small_.end()) return std::nullopt;
  const SmallPage& page = found->second;
  const std::optional<unsigned> index = index_of(block, page);
  return index && page.is_in_use(*index) ? std::optional(page.bytes()) : std::nullopt;
}

Blocks::Pages Blocks::take_pages(std::size_t count) {
  if (const std::uintptr_t first = used_.take(count); first != 0) return {.first = first};
  if (const std::uintptr_t first = untouched_.take(count); first != 0)
    return {.first = first, .untouched = true};
  // Together they may be enough.
  untouched_.move_to(used_);
  return {.first = used_.take(count)};
}

void Blocks::Runs::erase(std::map<std::uintptr_t, std::size_t>::iterator run) {
  by_length_.erase({run->second, run->first});
  by_address_.erase(run);
}

std::uintptr_t Blocks::Runs::take(std::size_t count) {
  const auto fit = by_length_.lower_bound({count, 0});
  if (fit == by_length_.end()) return 0;
  const auto [length, first] = *fit;
  erase(by_address_.find(first));
  if (length > count) {
    by_address_.emplace(first + count * kPage, length - count);
    by_length_.emplace(length - count, first + count * kPage);
  }
  return first;
}

void Blocks::Runs::add(std::uintptr_t first, std::size_t count) {
  auto next = by_address_.lower_bound(first);
  if (next != by_address_.end() && next->first == first + count * kPage) {
    count += next->second;
    erase(next++);
  }
  if (next != by_address_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second * kPage == first) {
      first = before->first;
      count += before->second;
      erase(before);
    }
  }
  by_address_.emplace(first, count);
  by_length_.emplace(count, first);
}

void Blocks::Runs::move_to(Runs& others) {
  for (const auto& [first, count] : by_address_) others.add(first, count);
  by_address_.clear();
  by_length_.clear();
}

}  // namespace braid::dsm
