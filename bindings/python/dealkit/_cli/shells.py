"""The user's shell: advice that contains a command, or that sets a variable, uses the syntax of this shell."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Literal

_IS_WINDOWS = os.name == "nt"

# Arguments of these characters need no quotes in any of the shells. PowerShell would split `-name.x` and `-name:x`.
_PLAIN_ARGUMENT = re.compile(r"(?!-)[\w./:\\+=%-]+|-[\w-]*", re.ASCII)

# PowerShell accepts typographic quotes in place of `'`, as `CodeGeneration.EscapeSingleQuotedStringContent` documents.
_POWERSHELL_QUOTE = re.compile("['\u2018\u2019\u201a\u201b]")

# Variables that cmd computes, which are not in the environment: see `set /?`.
_CMD_VARIABLES = frozenset(("CD", "CMDCMDLINE", "CMDEXTVERSION", "DATE", "ERRORLEVEL", "RANDOM", "TIME"))


def current_shell() -> Literal["posix", "powershell", "cmd"]:
    """Returns the kind of the shell in which the command was typed, as the environment variables show it.

    - PowerShell builds the variable PSModulePath each time it starts (about_PSModulePath). On other systems than
      Windows, no other program sets it.
    - Windows sets PSModulePath for all programs, with folders of the system only. PowerShell adds a folder in the
      user's documents.
    - cmd sets PROMPT, which neither PowerShell nor the desktop sets. A shell inherits the variables of the shell in
      which it was started; with both variables, PowerShell is assumed, which Windows Terminal opens by default.
    - Git for Windows and MSYS2 set MSYSTEM in their POSIX shells.
    """
    module_path = os.environ.get("PSModulePath", "")
    if not _IS_WINDOWS:
        return "powershell" if module_path else "posix"
    if "MSYSTEM" in os.environ:
        return "posix"
    if "PROMPT" in os.environ and all(map(_is_system_folder, module_path.split(";"))):
        return "cmd"
    return "powershell"


def _is_system_folder(folder: str) -> bool:
    """Returns whether a folder of PSModulePath is in one of Windows' own folders."""
    system_folders = (os.environ.get(name, "").lower() for name in ("ProgramFiles", "ProgramW6432", "SystemRoot"))
    # Windows sets the variable with unexpanded names, which some programs pass on.
    prefixes = ("%programfiles%", "%systemroot%", *filter(None, system_folders))
    return not folder.strip() or folder.strip().lower().startswith(prefixes)


def quote(arguments: Sequence[str]) -> str:
    """Joins a command's arguments to a line that the user can enter in the shell."""
    match current_shell():
        case "posix":
            return shlex.join(arguments)
        case "powershell":
            return " ".join(map(_quote_for_powershell, arguments))
        case "cmd":
            return " ".join(map(_quote_for_cmd, arguments))


def _quote_for_powershell(argument: str) -> str:
    # Windows PowerShell 5.1 removes double quotes inside an argument; PowerShell 7.3 passes them on. The names of files
    # on Windows contain none.
    if _PLAIN_ARGUMENT.fullmatch(argument):
        return argument
    return "'" + _POWERSHELL_QUOTE.sub(r"\g<0>\g<0>", argument) + "'"


def _quote_for_cmd(argument: str) -> str:
    has_variable = _names_cmd_variable(argument)
    if _PLAIN_ARGUMENT.fullmatch(argument) and not has_variable:
        return argument
    # A program reads "" inside quotes as one quote, and a backslash before a quote as an escape.
    escaped = re.sub(r'(\\*)"', r'\1\1""', argument)
    escaped = re.sub(r"(\\+)\Z", r"\1\1", escaped)
    # cmd replaces %NAME% in quotes, too. Outside quotes, a caret in the name prevents this.
    return '"' + (escaped.replace("%", '"^%"') if has_variable else escaped) + '"'


def _names_cmd_variable(argument: str) -> bool:
    """Returns whether cmd would replace a part of the argument, such as `%PATH%`, with a variable's value. It does not
    replace unknown names, so `%d.%m.%Y` stays readable.
    """
    known_names = {name.upper() for name in os.environ} | _CMD_VARIABLES
    return any(name.upper() in known_names for name in re.findall(r"%([^%:]+)(?=[%:])", argument))


def set_variable_lines(name: str) -> list[str]:
    """Returns the lines that ask the user for the value of an environment variable, so that the value is not in the
    shell's history. They work in Windows PowerShell 5.1, too, which lacks `Read-Host -MaskInput`.
    """
    match current_shell():
        case "posix":
            return [f"read -rs {name} && export {name}"]
        case "powershell":
            return [f"$env:{name} = [Net.NetworkCredential]::new('', (Read-Host 'Key' -AsSecureString)).Password"]
        case "cmd":
            return [f"set /p {name}=Key: "]
