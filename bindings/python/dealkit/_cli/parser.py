"""The parser of the command line. Its errors name the option and similar options, but repeat no values."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from dealkit._cli.terminal import escape_controls, wrap_lines

# The minimum similarity of a suggested name, as difflib measures it, and the maximum number of suggestions. An option of
# another command must be more similar than one of the same command.
_MIN_SIMILARITY, _MIN_SIMILARITY_ELSEWHERE = 0.75, 0.85
_MAX_SUGGESTIONS = 3


class _UsageError(argparse.ArgumentError):
    """An error whose message contains no values and is complete."""

    def __init__(self, message: str) -> None:
        super().__init__(None, message)


class Parser(argparse.ArgumentParser):
    """A parser whose errors repeat no values, because a user may have passed the service key by mistake."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, exit_on_error=False, **settings)

    def parse_known_args(self, *arguments: Any, **keywords: Any) -> Any:
        # argparse would report missing arguments with a text that differs between versions of Python.
        required_actions = [action for action in self._actions if action.required]
        for action in required_actions:
            action.required = False
        try:
            options, unknown_arguments = super().parse_known_args(*arguments, **keywords)
        except argparse.ArgumentError as error:
            self.error(self._describe_error(error))
        finally:
            for action in required_actions:
                action.required = True
        if missing := [_display_name(action) for action in required_actions if getattr(options, action.dest) is None]:
            usage = (self.usage or "%(prog)s [OPTIONS]") % {"prog": self.prog}
            self.error(
                f"{_join(missing, 'and')} {'is' if len(missing) == 1 else 'are'} missing. The command is: {usage}"
            )
        return options, unknown_arguments

    def _describe_error(self, error: argparse.ArgumentError) -> str:
        if isinstance(error, _UsageError):
            return error.message
        # Other messages of argparse may contain the value.
        option = next((action for action in self._actions if _display_name(action) == error.argument_name), None)
        if option is not None and option.nargs == 0:
            return f"{error.argument_name} is used without a value. Remove the equals sign and the text after it."
        if isinstance(error.__context__, argparse.ArgumentTypeError):
            return f"{error.argument_name} {error.message}."
        return f"{error.argument_name or 'An argument'} has an invalid value."

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            name = _display_name(action)
            example = f", as in {name} {action.metavar}" if action.option_strings else ""
            raise _UsageError(f"{name} needs a value{example}.") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            raise _UsageError(self._describe_unknown_command(str(value)))
        raise _UsageError(f"{_display_name(action)} must be {' or '.join(map(str, action.choices))}.")

    def _describe_unknown_command(self, word: str) -> str:
        """Describes a word that is not a command, without the word, which may be the service key."""
        names = [command.prog for command in list_commands(self)]
        # A single word of a command, such as `export`, stands for the whole command, too.
        names_by_word: dict[str, list[str]] = {}
        for name in names:
            for part in {*name.removeprefix(self.prog).split()}:
                names_by_word.setdefault(part, []).append(name)
        similar_words = get_close_matches(word, names_by_word, len(names_by_word), _MIN_SIMILARITY)
        suggestions = dict.fromkeys(name for similar_word in similar_words for name in names_by_word[similar_word])
        all_commands = f"The commands are {_join(names, 'and')}."
        return f"There is no such command. {_suggest([*suggestions]) or all_commands}"

    def describe_unknown_arguments(self, arguments: Sequence[str], root: Parser) -> str:
        """Describes arguments that this command does not take, without their values. `root` is the parser of the whole
        command line.
        """
        names = [_option_name(argument) for argument in arguments if argument.startswith("-") and argument != "-"]
        if not names:
            return (
                f"There are too many arguments for {self.prog}. If a name contains spaces, put it in quotation marks."
            )
        name, own_options = names[0], _list_options(self)
        if name in own_options:
            return f"{name} must follow the command: {self.prog} … {name}"
        text = f"There is no option {escape_controls(name)} for {self.prog}."
        if similar_options := get_close_matches(name, own_options, _MAX_SUGGESTIONS, _MIN_SIMILARITY):
            return f"{text} {_suggest(similar_options)}"
        if "key" in name or "token" in name:
            return f"{text} The service key goes into the environment variable DEALKIT_SERVICE_KEY."
        options_by_command = {command.prog: _list_options(command) for command in list_commands(root)}
        all_options = {option for options in options_by_command.values() for option in options}
        for similar_option in get_close_matches(name, sorted(all_options), 1, _MIN_SIMILARITY_ELSEWHERE):
            commands = [command for command, options in options_by_command.items() if similar_option in options]
            return f"{text} {similar_option} belongs to {_join(commands, 'and')}."
        return text

    def display_name(self, destination: str) -> str:
        """Returns the name of the option or argument that sets an attribute of the result."""
        return next(_display_name(action) for action in self._actions if action.dest == destination)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        # Flushes the help text, which may still be in the buffer.
        sys.stdout.flush()
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dealkit: {message}\nFor help: {self.prog} --help\n")


class _Formatter(argparse.HelpFormatter):
    """A help formatter that preserves line breaks."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return wrap_lines(text, width)


def _display_name(action: argparse.Action) -> str:
    """Returns the name of an option or argument in the help text."""
    return "/".join(action.option_strings) or str(action.metavar or action.dest)


def _option_name(argument: str) -> str:
    """Returns the name of an option, without its value. A value can directly follow a name of one letter."""
    return argument.partition("=")[0] if argument.startswith("--") else argument[:2]


def _list_options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]


def list_commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yields the parsers of the commands of a parser, at all levels, without the groups of commands."""
    subparsers = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not subparsers:
        yield parser
    for action in subparsers:
        for subparser in action.choices.values():
            yield from list_commands(subparser)


def _suggest(names: list[str]) -> str:
    return f"Did you mean {_join(names[:_MAX_SUGGESTIONS], 'or')}?" if names else ""


def _join(names: list[str], conjunction: str) -> str:
    """Joins names, as in `a, b and c`."""
    return f" {conjunction} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
