// SPDX-License-Identifier: Apache-2.0
// How compile time grows with the graph: shapes of graph (growing_graphs.h) by sizes, for a CPU and
// for CUDA, without the JIT. Prints a table and, with --json, writes all figures.
//
//   build/tests/compile_growth [--sizes 500,1000,...] [--only chain,cat] [--target cpu,cuda]
//                              [--limit SECONDS] [--runs 3] [--json FILE]
//
// The graph arrives as a message does: parsed from bytes, which counts as "parse". Each case is
// compiled in a process of its own; seconds are of the one processor that it uses, the median of
// the runs, which end early where one takes over ten seconds; stages are by the clock. What takes
// longer than the limit is no figure, and larger graphs of that shape are left out.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/pipeline.h"
#include "tests/unit/testing/growing_graphs.h"

namespace {

namespace v1 = tensord::v1;
using tensord::testing::GrowingGraph;
using Clock = std::chrono::steady_clock;

constexpr double kLongSeconds = 10;  // a run that takes so long is not repeated

struct Figures {
  int nodes = 0;
  double total = 0;                                    // seconds of the processor
  std::vector<std::pair<std::string, double>> stages;  // seconds
};

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Figures CompileOnce(const std::string& bytes) {
  Figures figures;
  const auto start = Clock::now();
  const double processor = ProcessorSeconds();
  v1::CompileJob job;
  job.ParseFromString(bytes);
  figures.nodes = job.graph().nodes_size();
  figures.stages.emplace_back("parse", Since(start));
  tensord::compiler::CompileState state{.job = &job};
  const absl::Status status = tensord::compiler::RunPipeline(state);
  figures.total = ProcessorSeconds() - processor;
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::_Exit(1);
  }
  for (const v1::StageTime& stage : state.result.stages()) {
    // A pass's time includes its parts'.
    if (stage.stage().find('/') != std::string::npos) continue;
    figures.stages.emplace_back(stage.stage(), static_cast<double>(stage.nanoseconds()) * 1e-9);
  }
  return figures;
}

// The run with the median total.
Figures CompileOften(const std::string& bytes, int runs) {
  std::vector<Figures> all;
  for (int i = 0; i < runs; ++i) {
    all.push_back(CompileOnce(bytes));
    if (all.back().total > kLongSeconds) break;
  }
  std::sort(all.begin(), all.end(),
            [](const Figures& a, const Figures& b) { return a.total < b.total; });
  return all[(all.size() - 1) / 2];
}

// In a process of its own; nothing where it fails or takes longer than the limit.
std::optional<Figures> Measure(const GrowingGraph& graph, int nodes, bool cuda, int runs,
                               unsigned limit) {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string bytes = tensord::testing::GrowingJob(graph, nodes, cuda).SerializeAsString();
    alarm(limit);
    const Figures figures = CompileOften(bytes, runs);
    FILE* out = fdopen(ends[1], "w");
    std::fprintf(out, "%d %.9f\n", figures.nodes, figures.total);
    for (const auto& [name, seconds] : figures.stages) {
      std::fprintf(out, "%s %.9f\n", name.c_str(), seconds);
    }
    std::fclose(out);
    std::_Exit(0);
  }
  close(ends[1]);
  FILE* in = fdopen(ends[0], "r");
  Figures figures;
  const bool whole = std::fscanf(in, "%d %lf", &figures.nodes, &figures.total) == 2;
  char name[32];
  double seconds = 0;
  while (std::fscanf(in, "%31s %lf", name, &seconds) == 2)
    figures.stages.emplace_back(name, seconds);
  std::fclose(in);
  int status = 0;
  waitpid(child, &status, 0);
  return whole && status == 0 ? std::optional(figures) : std::nullopt;
}

struct Row {
  std::string shape, target;
  int size = 0;
  std::optional<Figures> figures;
  double ratio = 0;  // of seconds per node to those of the smallest size
};

void WriteJson(const std::string& file, const std::vector<Row>& rows, int limit) {
  std::ofstream out(file);
  out << "[\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    out << "  {\"shape\": \"" << row.shape << "\", \"target\": \"" << row.target
        << "\", \"size\": " << row.size;
    if (row.figures) {
      out << ", \"nodes\": " << row.figures->nodes << ", \"seconds\": " << row.figures->total
          << ", \"ratio\": " << row.ratio << ", \"stages\": {";
      for (size_t s = 0; s < row.figures->stages.size(); ++s) {
        const auto& [name, seconds] = row.figures->stages[s];
        out << (s == 0 ? "" : ", ") << "\"" << name << "\": " << seconds;
      }
      out << "}";
    } else {
      out << ", \"over_seconds\": " << limit;
    }
    out << (i + 1 < rows.size() ? "},\n" : "}\n");
  }
  out << "]\n";
}

void Print(const Row& row) {
  std::printf("| %-10s | %-4s | %6d | ", row.shape.c_str(), row.target.c_str(), row.size);
  if (!row.figures) {
    std::printf("over the limit |\n");
    return;
  }
  std::printf("%8.3f | %8.1f | %5.2f |", row.figures->total,
              row.figures->total / row.figures->nodes * 1e6, row.ratio);
  for (const auto& stage : row.figures->stages)
    std::printf(" %s %.3f", stage.first.c_str(), stage.second);
  std::printf(" |\n");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("How compile time grows with the graph.", "compile_growth");
  std::vector<int> sizes = {500, 1000, 2000, 5000, 10000, 20000};
  std::vector<std::string> only, targets = {"cpu", "cuda"};
  int limit = 60, runs = 3;
  std::string json;
  app.add_option("--sizes", sizes, "nodes of the graphs")->delimiter(',');
  app.add_option("--only", only, "shapes of graph")->delimiter(',');
  app.add_option("--target", targets, "cpu, cuda")->delimiter(',');
  app.add_option("--limit", limit, "seconds of one case, all runs");
  app.add_option("--runs", runs, "of which the median counts");
  app.add_option("--json", json, "a file for all figures");
  CLI11_PARSE(app, argc, argv);
  const std::set<std::string> shapes(only.begin(), only.end());
  std::vector<Row> rows;
  std::printf("| shape | target | size | seconds | us/node | ratio | seconds by stage |\n");
  std::printf("|---|---|---:|---:|---:|---:|---|\n");
  for (const GrowingGraph& graph : tensord::testing::GrowingGraphs()) {
    if (!shapes.empty() && shapes.count(graph.name) == 0) continue;
    for (const std::string& target : targets) {
      double first = 0;
      for (const int size : sizes) {
        Row row{graph.name, target, size};
        row.figures = Measure(graph, size, target == "cuda", runs, static_cast<unsigned>(limit));
        if (row.figures) {
          const double each = row.figures->total / row.figures->nodes;
          if (first == 0) first = each;
          row.ratio = each / first;
        }
        Print(row);
        rows.push_back(row);
        if (!row.figures) break;
      }
    }
  }
  if (!json.empty()) WriteJson(json, rows, limit);
  return 0;
}
