// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

#include "base/version.h"
#include "server/cli/command_line.h"
#include "server/cli/documents.h"

namespace tensord::server {
namespace {

// Text as roff takes it: nothing in it is a request or an escape.
std::string Escaped(const std::string& text) {
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n", " "}});
  if (escaped.starts_with(".") || escaped.starts_with("'")) escaped.insert(0, "\\&");
  return escaped;
}

std::string Bold(const std::string& text) { return absl::StrCat("\\fB", Escaped(text), "\\fR"); }
std::string Italic(const std::string& text) { return absl::StrCat("\\fI", Escaped(text), "\\fR"); }

void AddFlags(const std::vector<CommandFlag>& flags, std::string* page) {
  for (const CommandFlag& flag : flags) {
    absl::StrAppend(page, ".TP\n");
    for (size_t i = 0; i < flag.names.size(); ++i) {
      absl::StrAppend(page, i == 0 ? "" : ", ", Bold(flag.names[i]));
    }
    absl::StrAppend(page, flag.takes_value ? " " + Italic("VALUE") : "", "\n", Escaped(flag.help));
    if (!flag.environment.empty()) absl::StrAppend(page, " [", Escaped(flag.environment), "]");
    absl::StrAppend(page, "\n");
  }
}

void AddArguments(const std::vector<CommandArgument>& arguments, std::string* page) {
  for (const CommandArgument& argument : arguments) {
    absl::StrAppend(page, ".TP\n", Italic(argument.name), "\n", Escaped(argument.help), "\n");
  }
}

// "ls [OPTIONS]", "kernel [OPTIONS] KEY N"
std::string Usage(const CommandLine& line) {
  std::string usage = absl::StrCat(Bold(line.name), " [", Italic("OPTIONS"), "]");
  for (const CommandArgument& argument : line.arguments) {
    const std::string name = Italic(argument.name);
    absl::StrAppend(&usage, " ", argument.required ? name : absl::StrCat("[", name, "]"));
  }
  if (!line.commands.empty()) absl::StrAppend(&usage, " ", Italic("COMMAND"));
  return usage;
}

}  // namespace

std::string ManualPage(const CLI::App& app, int section) {
  const CommandLine line = ReadCommandLine(app);
  const std::vector<std::string> sentences = absl::StrSplit(line.help, '\n');
  std::string page = absl::StrCat(".TH ", absl::AsciiStrToUpper(line.name), " ", section,
                                  " \"\" \"tensord ", Version(), "\"\n.SH NAME\n",
                                  Escaped(line.name), " \\- ", Escaped(sentences.front()),
                                  "\n.SH SYNOPSIS\n", Usage(line), "\n.SH DESCRIPTION\n");
  for (const std::string& sentence : sentences)
    absl::StrAppend(&page, Escaped(sentence), "\n.br\n");
  absl::StrAppend(&page, ".SH OPTIONS\n");
  AddFlags(line.flags, &page);
  AddArguments(line.arguments, &page);
  if (!line.commands.empty()) absl::StrAppend(&page, ".SH COMMANDS\n");
  for (const CommandLine& command : line.commands) {
    absl::StrAppend(&page, ".SS ", Usage(command), "\n", Escaped(command.help), "\n");
    AddArguments(command.arguments, &page);
    std::vector<CommandFlag> own;  // without what every command has
    for (const CommandFlag& flag : command.flags) {
      if (flag.names.front() != "--help") own.push_back(flag);
    }
    AddFlags(own, &page);
  }
  return page;
}

}  // namespace tensord::server
