#include "tools/braid/ask.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>

#include "base/output_file.h"
#include "base/process_end.h"
#include "base/system_error.h"
#include "tools/braid/find_program.h"
#include "tools/braid/process/pipe.h"
#include "tools/braid/process/process.h"

namespace braid::cli {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** v = ::environ; *v != nullptr; ++v) all.emplace_back(*v);
  return all;
}

Result<std::string> ask(const std::string& name, std::vector<std::string> words, std::string_view input) {
  const Result<std::string> program = find_in_path(name, variable("PATH"));
  if (!program) return program.error();
  Result<Pipe> pipe = make_pipe();
  if (!pipe) return pipe.error();
  // A pipe takes what is that short.
  if (const int problem = write_all(pipe->write.get(), input); problem != 0)
    return error("{}: {}", name, cause_and_cure(problem));
  pipe->write.close();
  ProcessOptions options;
  options.path = *program;
  options.arguments = std::move(words);
  options.arguments.insert(options.arguments.begin(), name);
  options.environment = own_environment();
  options.stdin_fd = pipe->read.get();
  options.contained = false;
  const Result<FinishedProcess> done = run_process(options);
  if (!done) return done.error();
  if (done->wait_status != 0)
    return error("{} {}: {}", fmt::join(options.arguments, " "), describe_end(done->wait_status), done->err);
  return done->out;
}

}  // namespace braid::cli
