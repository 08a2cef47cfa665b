// An octree of bodies, in shared or private memory: how several compute nodes build it together, find the
// centres of mass, divide the bodies, and add up forces with it. A cell has eight parts of half its side; a part is
// empty, has one body, or is a cell with several. So the bodies' places alone determine the tree, whoever builds it, and
// centres of mass and forces, added up in the order of the parts, have the same bits in every run.
//
// `Others` is how a compute node shares the work (barnes.cpp): lock_cell() and unlock_cell(), and take_cells().
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "apps/barnes/bodies.h"

namespace braid::apps::barnes {

// A part of a cell: 0 is empty, a positive number a cell, a negative one the body -link - 1.
using Link = std::int32_t;
constexpr Link link_to_body(std::uint32_t body) {
  return -static_cast<Link>(body) - 1;
}
constexpr std::uint32_t body_of(Link link) {
  return static_cast<std::uint32_t>(-(link + 1));
}

struct Cell {
  std::array<Link, 8> parts;
  Vector centre_of_mass;
  double mass;
};

// Cells are taken from the tree's memory as many at a time: a page of them.
inline constexpr std::size_t kCellsTaken = 64;
static_assert(kCellsTaken * sizeof(Cell) == 4096);

// Deeper cells would be smaller than the distance of two different numbers.
inline constexpr unsigned kMaxLevel = 48;

// Where a cell is. Sides are powers of two, so that all of this is exact.
struct Cube {
  Vector centre;
  double half_side;

  // The part of the cube in which `place` is: a bit for each direction.
  unsigned part_with(const Vector& place) const {
    return (place[0] >= centre[0] ? 1u : 0u) + (place[1] >= centre[1] ? 2u : 0u) +
           (place[2] >= centre[2] ? 4u : 0u);
  }
  Cube part(unsigned which) const {
    const double quarter = half_side / 2;
    return {{centre[0] + ((which & 1) != 0 ? quarter : -quarter),
             centre[1] + ((which & 2) != 0 ? quarter : -quarter),
             centre[2] + ((which & 4) != 0 ? quarter : -quarter)},
            quarter};
  }
  bool contains(const Vector& place) const {
    for (std::size_t x = 0; x < 3; ++x)
      if (std::abs(place[x] - centre[x]) > half_side) return false;
    return true;
  }
};

// The smallest cube at the origin that is a power of two wide and has all coordinates up to `largest` inside.
inline Cube cube_around(double largest) {
  int exponent = 0;
  std::frexp(largest, &exponent);
  return {{0, 0, 0}, std::ldexp(1.0, exponent)};
}

struct Tree {
  static constexpr Link kRoot = 0;

  Cell* cells;
  std::uint64_t* costs;  // of each cell: of the bodies in it together
  std::size_t capacity;  // of both

  // A random tree has fewer cells than bodies; close pairs far from others need chains of them.
  static std::size_t capacity_for(std::size_t bodies, std::size_t nodes) {
    return (4 * bodies / kCellsTaken + nodes + 2) * kCellsTaken;
  }
};

// Cells at this level are the roots of subtrees whose centres of mass are found independently: with the first that are
// at most 1 wide, about the radius of half of the mass, the densest one has a few per cent of the bodies.
inline unsigned level_of_subtrees(const Cube& root) {
  unsigned level = 0;
  for (double side = 2 * root.half_side; side > 1; side /= 2) ++level;
  return level;
}

// One compute node's part in the building of a tree.
template <class Others>
class Builder {
 public:
  Builder(const Tree& tree, const Body* bodies, Others& others)
      : tree_(tree), bodies_(bodies), others_(others), known_(tree.capacity) {}

  // Before the first insert() into a new tree, whose root is empty and `root` large.
  void begin(const Cube& root) {
    root_ = root;
    for (const Link cell : cells_with_known_) known_[static_cast<std::size_t>(cell)] = {};
    cells_with_known_.clear();
    created_.clear();
    next_ = end_ = 0;
  }

  // From the root down. A part that is a cell remains that cell, so this node reads it under the lock once, and
  // remembers.
  void insert(std::uint32_t body) {
    Link cell = Tree::kRoot;
    Cube cube = root_;
    for (unsigned level = 0;; ++level) {
      const unsigned part = cube.part_with(bodies_[body].place);
      Link& known = known_[static_cast<std::size_t>(cell)][part];
      if (known == 0) {
        const Link next = insert_into_part(cell, part, cube, level, body);
        if (next == 0) return;
        remember(cell, part, next);
      }
      cell = known_[static_cast<std::size_t>(cell)][part];
      cube = cube.part(part);
    }
  }

  struct Created {
    Link cell;
    unsigned level;
  };
  // By this node, for the tree.
  const std::vector<Created>& created() const { return created_; }

 private:
  // Returns 0 if the body has its place, or the cell that has to take it.
  Link insert_into_part(Link cell, unsigned part, const Cube& cube, unsigned level, std::uint32_t body) {
    others_.lock_cell(cell);
    Link& link = tree_.cells[cell].parts[part];
    Link next = 0;
    if (link == 0) {
      link = link_to_body(body);
    } else if (link > 0) {
      next = link;
    } else {
      const Link separated = separate(body_of(link), body, cube.part(part), level + 1);
      link = separated;
      remember(cell, part, separated);
    }
    others_.unlock_cell(cell);
    return next;
  }

  // A cell in which the two bodies are in different parts, or the first of a chain of cells to it. No other node
  // sees them yet.
  Link separate(std::uint32_t one, std::uint32_t other, Cube cube, unsigned level) {
    const Link first = create(level);
    for (Link cell = first;; ++level) {
      const unsigned part_of_one = cube.part_with(bodies_[one].place);
      const unsigned part_of_other = cube.part_with(bodies_[other].place);
      std::array<Link, 8>& parts = tree_.cells[cell].parts;
      if (part_of_one != part_of_other) {
        parts[part_of_one] = link_to_body(one);
        parts[part_of_other] = link_to_body(other);
        return first;
      }
      if (level == kMaxLevel) fail("two bodies are at the same place");
      const Link next = create(level + 1);
      parts[part_of_one] = next;
      remember(cell, part_of_one, next);
      cube = cube.part(part_of_one);
      cell = next;
    }
  }

  Link create(unsigned level) {
    if (next_ == end_) {
      next_ = others_.take_cells();
      end_ = next_ + kCellsTaken;
      if (end_ > tree_.capacity) fail("the tree has more cells than there is memory for");
    }
    const Link cell = static_cast<Link>(next_++);
    tree_.cells[cell] = {};
    created_.push_back({cell, level});
    return cell;
  }

  void remember(Link cell, unsigned part, Link next) {
    known_[static_cast<std::size_t>(cell)][part] = next;
    cells_with_known_.push_back(cell);
  }

  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "barnes: %s\n", what);
    std::exit(1);
  }

  const Tree tree_;
  const Body* bodies_;
  Others& others_;
  Cube root_{};
  std::vector<std::array<Link, 8>> known_;  // parts that are cells, as far as this node knows; else 0
  std::vector<Link> cells_with_known_;
  std::vector<Created> created_;
  std::size_t next_ = 0, end_ = 0;  // of the cells taken
};

// Mass, centre of mass and cost of the bodies in `cell`, from its parts; first of the cells in it, as far as they are
// `levels` deeper at most.
inline void summarise(const Tree& tree, const Body* bodies, const Motion* motions, Link cell,
                      unsigned levels) {
  Cell& summary = tree.cells[cell];
  std::uint64_t cost = 0;
  double mass = 0;
  Vector moment{};
  const auto add = [&](const Vector& place, double part_mass, std::uint64_t part_cost) {
    mass += part_mass;
    cost += part_cost;
    for (std::size_t x = 0; x < 3; ++x) moment[x] += part_mass * place[x];
  };
  for (const Link link : summary.parts) {
    if (link > 0) {
      if (levels > 0) summarise(tree, bodies, motions, link, levels - 1);
      add(tree.cells[link].centre_of_mass, tree.cells[link].mass, tree.costs[link]);
    } else if (link < 0) {
      const std::uint32_t body = body_of(link);
      add(bodies[body].place, bodies[body].mass, motions[body].cost);
    }
  }
  summary.mass = mass;
  for (std::size_t x = 0; x < 3; ++x) summary.centre_of_mass[x] = mass > 0 ? moment[x] / mass : 0;
  tree.costs[cell] = cost;
}

// The bodies whose cost, if all costs are laid end to end in the order of the tree, begins in [first, last):
// near each other in space, and about as much work for every compute node (costzones).
class Zone {
 public:
  Zone(const Tree& tree, const Motion* motions, std::uint64_t first, std::uint64_t last)
      : tree_(tree), motions_(motions), first_(first), last_(last) {}

  std::vector<std::uint32_t> bodies() {
    bodies_.clear();
    visit(Tree::kRoot, 0);
    return std::move(bodies_);
  }

 private:
  void visit(Link cell, std::uint64_t before) {
    for (const Link link : tree_.cells[cell].parts) {
      if (link == 0 || before >= last_) continue;
      const std::uint64_t cost = link > 0 ? tree_.costs[link] : motions_[body_of(link)].cost;
      if (link > 0) {
        if (before + cost > first_) visit(link, before);
      } else if (before >= first_) {
        bodies_.push_back(body_of(link));
      }
      before += cost;
    }
  }

  const Tree& tree_;
  const Motion* motions_;
  std::uint64_t first_, last_;
  std::vector<std::uint32_t> bodies_;
};

// The force of all other bodies on one. A cell that is less than `opening` times as wide as far away counts as one body at its
// centre of mass, unless the body is inside.
class ForceWalk {
 public:
  ForceWalk(const Tree& tree, const Body* bodies, double opening, std::uint32_t body)
      : tree_(tree), bodies_(bodies), place_(bodies[body].place), opening_(opening), body_(body) {}

  void visit(Link cell, const Cube& cube) {
    const Cell& here = tree_.cells[cell];
    for (unsigned part = 0; part < 8; ++part) {
      const Link link = here.parts[part];
      if (link < 0) {
        if (body_of(link) == body_) continue;
        const Body& other = bodies_[body_of(link)];
        attract(place_, other.place, other.mass, acceleration);
        ++cost;
      } else if (link > 0) {
        const Cube inner = cube.part(part);
        const Cell& far = tree_.cells[link];
        if (is_far(far, inner)) {
          attract(place_, far.centre_of_mass, far.mass, acceleration);
          ++cost;
        } else {
          visit(link, inner);
        }
      }
    }
  }

  Vector acceleration{};
  std::uint64_t cost = 0;  // interactions

 private:
  bool is_far(const Cell& cell, const Cube& cube) const {
    double square = 0;
    for (std::size_t x = 0; x < 3; ++x) {
      const double apart = cell.centre_of_mass[x] - place_[x];
      square += apart * apart;
    }
    const double side = 2 * cube.half_side;
    return side * side < opening_ * opening_ * square && !cube.contains(place_);
  }

  const Tree& tree_;
  const Body* bodies_;
  Vector place_;
  double opening_;
  std::uint32_t body_;
};

}  // namespace braid::apps::barnes
