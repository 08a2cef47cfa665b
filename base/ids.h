// Numbers that name things. Ids of two kinds cannot be mixed by accident; value() is the number itself.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace braid {

template <class Tag, class Rep>
class Id {
 public:
  constexpr Id() = default;
  explicit constexpr Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  Rep value_ = 0;
};

// One SMP of the machine, 0 .. clusters-1.
using ClusterId = Id<struct ClusterTag, std::uint16_t>;
// A protocol processor inside its cluster, 0 .. proxies-1.
using ProxyId = Id<struct ProxyTag, std::uint8_t>;
// A compute node of the whole machine: cluster * nodes_per_cluster + index.
using NodeId = Id<struct NodeTag, std::uint32_t>;
// One end of a parallel connection, or a listener: unique inside its cluster, never reused at once.
using PortId = Id<struct PortTag, std::uint32_t>;
// A page of the shared heap, counted from the heap's base.
using PageId = Id<struct PageTag, std::uint32_t>;
// One link of a proxy: a queue of a NIC, or a wire to a peer.
using LinkId = Id<struct LinkTag, std::uint16_t>;

}  // namespace braid

template <class Tag, class Rep>
struct std::hash<braid::Id<Tag, Rep>> {
  std::size_t operator()(braid::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value()); }
};
