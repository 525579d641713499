"""The lexer: xDSL's, with string literals read in linear time and as UTF-8."""

from __future__ import annotations

import re

from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Position, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

_STRING = re.compile(r'"[^"\\\n\v\f]*(?:\\(?:["nt\\]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*)*"')


class MloptLexer(MLIRLexer):
    """xDSL's lexer with another rule for strings.

    Its own takes exponential time for a string that is not closed, and reads `"\\C3\\A9"`, which is how an é is
    printed, as bytes instead of a string.
    """

    def _lex_string_literal(self, start_pos: Position) -> MLIRToken:
        match = _STRING.match(self.input.content, start_pos)
        if match is None:
            raise ParseError(
                Span(start_pos, self.pos, self.input),
                "expected a string that ends on this line, with valid escapes",
            )
        self.pos = match.end()
        literal = StringLiteral(start_pos, self.pos, self.input)
        return Token(MLIRTokenKind.STRING_LIT if _is_utf8(literal) else MLIRTokenKind.BYTES_LIT, literal)


def _is_utf8(literal: StringLiteral) -> bool:
    if "\\" not in literal.text:
        return True
    try:
        literal.bytes_contents.decode()
    except UnicodeDecodeError:
        return False
    return True
