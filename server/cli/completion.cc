// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <set>
#include <utility>

#include "base/check.h"
#include "server/cli/command_line.h"
#include "server/cli/documents.h"

namespace tensord::server {
namespace {

// Between single quotes, for all three shells; each leaves them for a quote by itself.
std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}, {"\n", " "}}), "'");
}

std::vector<std::string> FlagNames(const CommandLine& line, bool with_value_only) {
  std::vector<std::string> names;
  for (const CommandFlag& flag : line.flags) {
    if (with_value_only && !flag.takes_value) continue;
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

std::vector<std::string> CommandNames(const CommandLine& line) {
  std::vector<std::string> names;
  for (const CommandLine& command : line.commands) names.push_back(command.name);
  return names;
}

// ---- bash: programmable completion, bash(1). Behind a flag that takes a value, and where nothing
// fits, `-o default` offers files.

std::string Bash(const CommandLine& line) {
  std::vector<std::string> words = FlagNames(line, false);
  const std::string common = absl::StrJoin(words, " ");
  const std::vector<std::string> valued_everywhere = FlagNames(line, true);
  std::set<std::string> valued(valued_everywhere.begin(), valued_everywhere.end());
  std::string cases;
  for (const CommandLine& command : line.commands) {
    const std::vector<std::string> flags = FlagNames(command, true);
    valued.insert(flags.begin(), flags.end());
    absl::StrAppend(&cases, "    ", command.name, ") words=\"",
                    absl::StrJoin(FlagNames(command, false), " "), " $common\" ;;\n");
  }
  const std::vector<std::string> names = CommandNames(line);
  words.insert(words.end(), names.begin(), names.end());
  return absl::StrCat(
      "_", line.name, "() {\n",
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= i\n",
      "  local common=", Quoted(common), " words\n",  //
      "  COMPREPLY=()\n", "  case $before in ", valued.empty() ? "''" : absl::StrJoin(valued, "|"),
      ") return ;; esac\n",
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case ${COMP_WORDS[i]} in ",
      names.empty() ? "''" : absl::StrJoin(names, "|"),
      ") command=${COMP_WORDS[i]} && break ;; esac\n  done\n", "  case $command in\n", cases,
      "    *) words=", Quoted(absl::StrJoin(words, " ")), " ;;\n  esac\n",
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -o default -F _", line.name,
      " ", line.name, "\n");
}

// ---- zsh: _arguments of zshcompsys(1)

std::string ZshArguments(const CommandLine& line) {
  // What separates the parts of a specification, within one.
  const auto escaped = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
  };
  std::string all;
  for (const CommandFlag& flag : line.flags) {
    for (const std::string& name : flag.names) {
      const char* const equals = flag.takes_value && name.starts_with("--") ? "=" : "";
      absl::StrAppend(&all, " \\\n    ",
                      Quoted(absl::StrCat(name, equals, "[", escaped(flag.help), "]",
                                          flag.takes_value ? ":value:_files" : "")));
    }
  }
  for (const CommandArgument& argument : line.arguments) {
    absl::StrAppend(
        &all, " \\\n    ",
        Quoted(absl::StrCat(argument.required ? ":" : "::", escaped(argument.name), ":_files")));
  }
  return all;
}

std::string Zsh(const CommandLine& line) {
  std::string script =
      absl::StrCat("#compdef ", line.name, "\n_", line.name,
                   "() {\n  local line state commands\n  _arguments -C", ZshArguments(line));
  if (!line.commands.empty()) {
    absl::StrAppend(&script, " \\\n    '1:command:->command' '*::argument:->argument'\n",
                    "  case $state in\n    command)\n      commands=(");
    for (const CommandLine& command : line.commands) {
      absl::StrAppend(&script, "\n        ",
                      Quoted(absl::StrCat(command.name, ":",
                                          absl::StrReplaceAll(command.help, {{":", "\\:"}}))));
    }
    absl::StrAppend(&script, ")\n      _describe command commands ;;\n    argument)\n",
                    "      case $line[1] in\n");
    for (const CommandLine& command : line.commands) {
      absl::StrAppend(&script, "        ", command.name, ") _arguments", ZshArguments(command),
                      " ;;\n");
    }
    absl::StrAppend(&script, "      esac ;;\n  esac");
  }
  return absl::StrCat(script, "\n}\n_", line.name, " \"$@\"\n");
}

// ---- fish: complete(1)

void AddFishFlags(const std::string& program, const std::string& when, const CommandLine& line,
                  std::string* script) {
  for (const CommandFlag& flag : line.flags) {
    absl::StrAppend(script, "complete -c ", program, when);
    for (const std::string& name : flag.names) {
      const bool is_long = name.starts_with("--");
      absl::StrAppend(script, is_long ? " -l " : " -s ", name.substr(is_long ? 2 : 1));
    }
    absl::StrAppend(script, flag.takes_value ? " -r" : "", " -d ", Quoted(flag.help), "\n");
  }
}

std::string Fish(const CommandLine& line) {
  std::string script;
  AddFishFlags(line.name, "", line, &script);
  for (const CommandLine& command : line.commands) {
    absl::StrAppend(&script, "complete -c ", line.name, " -n __fish_use_subcommand -f -a ",
                    command.name, " -d ", Quoted(command.help), "\n");
    AddFishFlags(line.name, absl::StrCat(" -n '__fish_seen_subcommand_from ", command.name, "'"),
                 command, &script);
  }
  return script;
}

using Writer = std::string (*)(const CommandLine&);
constexpr std::pair<const char*, Writer> kWriters[] = {
    {"bash", Bash}, {"zsh", Zsh}, {"fish", Fish}};

}  // namespace

const std::vector<std::string>& Shells() {
  static const auto* const shells = [] {
    auto* names = new std::vector<std::string>;
    for (const auto& [name, writer] : kWriters) names->push_back(name);
    return names;
  }();
  return *shells;
}

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  for (const auto& [name, writer] : kWriters) {
    if (name == shell) return writer(ReadCommandLine(app));
  }
  TENSORD_CHECK(false);  // no such shell
  return "";
}

}  // namespace tensord::server
