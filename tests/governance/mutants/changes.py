"""Everything that is changed in a file, one place at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

Change = tuple[int, str, str, str]  # line, function, before, after
ORDER = {ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
         ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
         ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,),
         ast.IsNot: (ast.Is,)}  # fmt: skip
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
              ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.Mod: ast.Mult}  # fmt: skip
ANSWERS = {"PASS": "FAIL", "GO": "NO_GO"}
"""What takes the place of an outcome or status; of any other: the good one."""
SIDES = {"at least": "at most", "at most": "at least"}


def _options(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that may take the place of this one."""
    yield from _operators(node)
    yield from _constants(node)
    yield from _shorter(node)
    match node:
        case ast.If(test=test, body=body, orelse=orelse) if not isinstance(test, ast.Constant):
            yield ast.If(ast.Constant(False), body, orelse)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test, orelse, body)


def _operators(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]):
            for other in ORDER[type(op)]:
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        case ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
        case ast.UnaryOp():
            yield node.operand


def _constants(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1 if isinstance(value, int) else value * 2)
        case ast.Constant(value=str() as value) if value in SIDES:
            yield ast.Constant(SIDES[value])
        case ast.Attribute(value=ast.Name(id="Outcome" | "Status" as name)):
            good = "PASS" if name == "Outcome" else "GO"
            yield ast.Attribute(node.value, ANSWERS.get(node.attr, good), ast.Load())


def _shorter(node: ast.AST) -> Iterator[ast.AST]:
    """A table of names, outcomes or checks with one of them left out."""
    match node:
        case ast.Tuple(elts=parts, ctx=ast.Load()) if _is_table(parts):
            for place in range(len(parts)):
                yield ast.Tuple(parts[:place] + parts[place + 1 :], ast.Load())
        case ast.Dict(keys=[_, _, *_], values=values) if all(
            isinstance(value, ast.Name) for value in values
        ):
            for place in range(len(values)):
                keys = node.keys[:place] + node.keys[place + 1 :]
                yield ast.Dict(keys, values[:place] + values[place + 1 :])


def _is_table(parts: Sequence[ast.expr]) -> bool:
    return len(parts) > 1 and all(
        isinstance(part, ast.Attribute | ast.Starred)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in parts
    )


def _skipped(node: ast.AST) -> bool:
    """Annotations, bounds of the plan's fields and texts are no decisions."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    literal = isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
    return literal or name in ("Field", "ConfigDict") or isinstance(node, ast.JoinedStr)


def _places(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.AST, str, Any]]:
    """(function, holder, field, place in it or None) of everything that may be changed."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = f"{inside}.{node.name}".lstrip(".")
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not _skipped(child):
                yield inside, node, field, place
                yield from _places(child, inside)


def mutants(source: str) -> Iterator[tuple[Change, ast.Module]]:
    """Every mutant of a module: what was changed, and its tree, valid until the next is asked."""
    tree = ast.parse(source)
    for inside, holder, field, place in list(_places(tree)):
        own = getattr(holder, field)
        node = own if place is None else own[place]
        for option in _options(node):
            before, after = ast.unparse(node), ast.unparse(option)
            if isinstance(node, ast.If):
                before, after = f"if {ast.unparse(node.test)}", "if False"
            _put(holder, field, place, ast.copy_location(option, node))
            yield (node.lineno, inside, before, after), ast.fix_missing_locations(tree)
            _put(holder, field, place, node)
        follows = own[place + 1] if place is not None and place + 1 < len(own) else None
        if isinstance(node, ast.If) and isinstance(follows, ast.If) and not node.orelse:
            own[place], own[place + 1] = follows, node
            tests = [ast.unparse(part.test) for part in (node, follows)]
            yield (node.lineno, inside, f"if {tests[0]} first", f"if {tests[1]} first"), tree
            own[place], own[place + 1] = node, follows


def _put(holder: ast.AST, field: str, place: int | None, node: ast.AST) -> None:
    if place is None:
        setattr(holder, field, node)
    else:
        getattr(holder, field)[place] = node
