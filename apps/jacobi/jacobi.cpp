// Jacobi relaxation: each inner point of a square grid becomes the mean of its four neighbours, from one grid
// into another, with a barrier between iterations. Rows are divided into contiguous shares, so neighbours
// share the pages at the edges of their shares and nothing else.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "apps/common/arguments.h"
#include "apps/common/program.h"
#include "apps/common/team.h"
#include "dsm/api.h"

namespace {

using braid::dsm::Range;

struct Grids {
  double* from;
  double* to;
};

// The boundary is fixed and differs at every point, so a row in the wrong place shows.
double initial(std::size_t n, std::size_t i, std::size_t j) {
  const bool boundary = i == 0 || j == 0 || i == n - 1 || j == n - 1;
  return boundary ? 1.0 + static_cast<double>(i * n + j) / static_cast<double>(n * n) : 0.0;
}

void fill(std::size_t n, Range rows, const Grids& grids) {
  for (const std::size_t i : rows) {
    for (std::size_t j = 0; j < n; ++j) grids.from[i * n + j] = grids.to[i * n + j] = initial(n, i, j);
  }
}

void relax(std::size_t n, Range rows, const Grids& grids) {
  const std::size_t last = std::min(rows.last(), n - 1);
  for (std::size_t i = std::max<std::size_t>(rows.first(), 1); i < last; ++i) {
    const double* const above = grids.from + (i - 1) * n;
    const double* const here = grids.from + i * n;
    const double* const below = grids.from + (i + 1) * n;
    double* const to = grids.to + i * n;
    for (std::size_t j = 1; j < n - 1; ++j)
      to[j] = 0.25 * ((above[j] + below[j]) + (here[j - 1] + here[j + 1]));
  }
}

std::vector<double> sequential(std::size_t n, int iterations) {
  std::vector<double> a(n * n), b(n * n);
  Grids grids{a.data(), b.data()};
  const Range all(0, n);
  fill(n, all, grids);
  for (int k = 0; k < iterations; ++k) {
    relax(n, all, grids);
    std::swap(grids.from, grids.to);
  }
  return grids.from == a.data() ? a : b;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t n = 2048;
  int iterations = 3;
  braid::apps::Arguments arguments(
      "Jacobi relaxation on a square grid in shared memory, verified against a sequential run.", "jacobi");
  arguments.number("--size", n, "Points on a side of the grid", 3, 65536);
  arguments.number("--iterations", iterations, "Relaxations of the whole grid", 1, 1'000'000);
  braid::apps::Intra intra(arguments);
  arguments.parse_or_exit(argc, argv);

  braid::dsm::init();
  braid::apps::Verdict verdict;
  Grids grids{braid::dsm::allocate<double>(n * n), braid::dsm::allocate<double>(n * n)};
  double seconds = 0;
  intra.run([&](auto&& team) {
    Grids mine = grids;
    // By their owners: a page's first writer is the one who works on it.
    team.divide(n, [&](Range rows) { fill(n, rows, mine); });
    team.barrier();
    const double start = braid::dsm::seconds();
    for (int k = 0; k < iterations; ++k) {
      team.divide(n, [&](Range rows) { relax(n, rows, mine); });
      std::swap(mine.from, mine.to);
      team.barrier();
    }
    if (team.reports()) seconds = braid::dsm::seconds() - start;
  });
  if (iterations % 2 != 0) std::swap(grids.from, grids.to);

  if (braid::dsm::cluster() == 0) {
    const bool right = braid::apps::matches(n, std::span(grids.from, n * n), sequential(n, iterations));
    verdict.give(right);
    std::printf("jacobi: %zu x %zu, %d iterations, %u compute nodes: %.3f s, %s\n", n, n, iterations,
                braid::dsm::clusters() * braid::dsm::nodes_per_cluster(), seconds,
                right ? "verified" : "WRONG");
    std::fflush(stdout);
  }
  const int status = verdict.status();
  return braid::dsm::finish(status);
}
