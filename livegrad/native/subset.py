"""The language that is translated: Python as far as this table knows it, and nothing else.

Every kind of node is listed, with what must hold of it. What is not listed is refused, so that a
function is translated with Python's meaning or not at all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any


class Untranslatable(Exception):
    """A function is not written in the subset."""


def check(definition: ast.FunctionDef) -> None:
    """Refuses a function with anything in it that is not in the subset."""
    arguments = definition.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        raise Untranslatable(f"{definition.name}: only plain arguments")
    if getattr(definition, "type_params", None):
        raise Untranslatable(f"{definition.name}: type parameters")
    for statement in definition.body:
        _check(definition.name, statement)


def _check(name: str, node: ast.AST) -> None:
    rule = _RULES.get(type(node))
    if rule is None or not rule(node):
        raise Untranslatable(f"{name}: {ast.unparse(node) or type(node).__name__}")
    for child in _children(node):
        _check(name, child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What of a node means something when it runs: annotations do not."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            again = field == "body" and isinstance(node, ast.ExceptHandler) and _is_again(child)
            if isinstance(child, ast.AST) and field != "annotation" and not again:
                yield child


def _always(_: Any) -> bool:
    return True


def _is_again(statement: Any) -> bool:
    """Whether a statement raises what is being handled once more."""
    return isinstance(statement, ast.Raise) and statement.exc is None


def _is_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return all([_is_target(x) for x in node.elts])
    return _is_single(node)


def _is_single(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


def _assign(node: ast.Assign) -> bool:
    return all([_is_target(x) for x in node.targets])


def _loop(node: ast.For) -> bool:
    return not node.orelse and _is_target(node.target)


def _comprehension(node: ast.comprehension) -> bool:
    # Its variables get names of their own: other targets would be the function's.
    names = [node.target]
    if isinstance(node.target, ast.Tuple):
        names = node.target.elts
    return not node.is_async and all([isinstance(x, ast.Name) for x in names])


def _try(node: ast.Try) -> bool:
    both = node.handlers and node.finalbody
    return not node.orelse and not both and not _leaves(node.finalbody)


def _handler(node: ast.ExceptHandler) -> bool:
    *before, last = node.body
    if any([_is_again(x) for x in before]) or (_is_again(last) and _leaves(before)):
        return False
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return node.name is None and all([isinstance(x, ast.Name | ast.Attribute) for x in kinds])


def _leaves(statements: list[ast.stmt], in_loop: bool = False) -> bool:
    """Whether control may leave these otherwise than at their end, or by an error."""
    for statement in statements:
        if isinstance(statement, ast.Return):
            return True
        if isinstance(statement, ast.Break | ast.Continue) and not in_loop:
            return True
        inside = in_loop or isinstance(statement, ast.For | ast.While)
        for field in ("body", "orelse", "finalbody", "handlers"):
            if _leaves(getattr(statement, field, []), inside):
                return True
    return False


def _raise(node: ast.Raise) -> bool:
    return node.exc is not None and (
        node.cause is None or (isinstance(node.cause, ast.Constant) and node.cause.value is None)
    )


def _compare(node: ast.Compare) -> bool:
    operands = [node.left, *node.comparators]
    # Those in the middle are evaluated twice.
    simple = all([isinstance(x, ast.Name | ast.Constant) for x in operands[1:-1]])
    return simple and not (_asks_for_identity(node) and any([_is_literal(x) for x in operands]))


def _asks_for_identity(node: ast.Compare) -> bool:
    return any([isinstance(op, ast.Is | ast.IsNot) for op in node.ops])


def _is_literal(node: ast.expr) -> bool:
    """Whether it is a constant of which there may be several that are equal."""
    alone = (None, True, False, ...)
    return isinstance(node, ast.Constant) and not any([node.value is x for x in alone])


def _call(node: ast.Call) -> bool:
    starred = any([isinstance(a, ast.Starred) for a in node.args])
    alone = len(node.args) == 1 and not node.keywords
    return (alone or not starred) and all([k.arg is not None for k in node.keywords])


def _starred(node: ast.Starred) -> bool:
    return isinstance(node.ctx, ast.Load)


def _without_starred(node: Any) -> bool:
    return not any([isinstance(x, ast.Starred) for x in node.elts])


_RULES: dict[type[ast.AST], Callable[[Any], bool]] = {
    # statements
    ast.AnnAssign: lambda node: _is_single(node.target),
    ast.Assert: _always,
    ast.Assign: _assign,
    ast.AugAssign: lambda node: _is_single(node.target),
    ast.Break: _always,
    ast.Continue: _always,
    ast.ExceptHandler: _handler,
    ast.Expr: _always,
    ast.For: _loop,
    ast.If: _always,
    ast.Pass: _always,
    ast.Raise: _raise,
    ast.Return: _always,
    ast.Try: _try,
    ast.While: lambda node: not node.orelse,
    # expressions
    ast.Attribute: _always,
    ast.BinOp: _always,
    ast.BoolOp: _always,
    ast.Call: _call,
    ast.Compare: _compare,
    ast.Constant: _always,
    ast.IfExp: _always,
    ast.List: _without_starred,
    ast.ListComp: _always,
    ast.Name: _always,
    ast.Set: _without_starred,
    ast.Starred: _starred,
    ast.Subscript: _always,
    ast.Tuple: _without_starred,
    ast.UnaryOp: _always,
    ast.comprehension: _comprehension,
    ast.keyword: _always,
    # operators, and whether a name is read or assigned to
    **dict.fromkeys((ast.Add, ast.Sub, ast.Mult, ast.USub, ast.Not, ast.And, ast.Or), _always),
    **dict.fromkeys((ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE), _always),
    **dict.fromkeys((ast.Is, ast.IsNot, ast.In, ast.NotIn, ast.Load, ast.Store), _always),
}
