// Matrix multiplication C = A x B. Rows of A and C are divided into contiguous shares; every compute node
// reads all of B, so B's pages come once to every cluster.
#include <span>
#include <vector>

#include "apps/common/arguments.h"
#include "apps/common/program.h"
#include "apps/common/team.h"
#include "dsm/api.h"

namespace {

using braid::dsm::Range;

struct Matrices {
  double* a;
  double* b;
  double* c;
};

// Small fractions of mixed sign: sums that depend on their order, so a wrong order shows too.
double element(std::size_t seed, std::size_t i, std::size_t j) {
  return static_cast<double>((i * 131 + j * 71 + seed) % 1009) / 1009.0 - 0.5;
}

void fill(std::size_t n, Range rows, const Matrices& m) {
  for (const std::size_t i : rows) {
    for (std::size_t j = 0; j < n; ++j) {
      m.a[i * n + j] = element(1, i, j);
      m.b[i * n + j] = element(500, i, j);
    }
  }
}

void multiply(std::size_t n, Range rows, const Matrices& m) {
  for (const std::size_t i : rows) {
    double* const c = m.c + i * n;
    for (std::size_t j = 0; j < n; ++j) c[j] = 0.0;
    for (std::size_t k = 0; k < n; ++k) {
      const double a = m.a[i * n + k];
      const double* const b = m.b + k * n;
      for (std::size_t j = 0; j < n; ++j) c[j] += a * b[j];
    }
  }
}

std::vector<double> sequential(std::size_t n) {
  std::vector<double> a(n * n), b(n * n), c(n * n);
  const Matrices m{a.data(), b.data(), c.data()};
  fill(n, Range(0, n), m);
  multiply(n, Range(0, n), m);
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t n = 384;
  braid::apps::Arguments arguments(
      "Multiplication of square matrices in shared memory, verified against a sequential run.", "matmul");
  arguments.number("--size", n, "Rows and columns", 1, 16384);
  braid::apps::Intra intra(arguments);
  arguments.parse_or_exit(argc, argv);

  braid::dsm::init();
  braid::apps::Verdict verdict;
  const Matrices m{braid::dsm::allocate<double>(n * n), braid::dsm::allocate<double>(n * n),
                   braid::dsm::allocate<double>(n * n)};
  double seconds = 0;
  intra.run([&](auto&& team) {
    team.divide(n, [&](Range rows) { fill(n, rows, m); });
    team.barrier();
    const double start = braid::dsm::seconds();
    team.divide(n, [&](Range rows) { multiply(n, rows, m); });
    team.barrier();
    if (team.reports()) seconds = braid::dsm::seconds() - start;
  });

  if (braid::dsm::cluster() == 0) {
    const bool right = braid::apps::matches(n, std::span(m.c, n * n), sequential(n));
    verdict.give(right);
    std::printf("matmul: %zu x %zu, %u compute nodes: %.3f s, %s\n", n, n,
                braid::dsm::clusters() * braid::dsm::nodes_per_cluster(), seconds,
                right ? "verified" : "WRONG");
    std::fflush(stdout);
  }
  const int status = verdict.status();
  return braid::dsm::finish(status);
}
