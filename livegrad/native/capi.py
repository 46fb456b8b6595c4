"""Python's C interface, as translated functions call it: by addresses in a table."""

from __future__ import annotations

import ctypes

# Functions of Python's C interface, as LLVM sees them: (result, arguments).
CAPI: dict[str, tuple[str, str]] = {
    "_Py_Dealloc": ("void", "ptr"),
    "PyErr_Clear": ("void", ""),
    "PyErr_ExceptionMatches": ("i32", "ptr"),
    "PyErr_Fetch": ("void", "ptr, ptr, ptr"),
    "PyErr_Occurred": ("ptr", ""),
    "PyErr_Restore": ("void", "ptr, ptr, ptr"),
    "PyErr_SetObject": ("void", "ptr, ptr"),
    "PyException_SetCause": ("void", "ptr, ptr"),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyEval_SaveThread": ("ptr", ""),
    "PyBool_FromLong": ("ptr", "i64"),
    "PyDict_GetItemWithError": ("ptr", "ptr, ptr"),
    "PyFloat_AsDouble": ("double", "ptr"),
    "PyFloat_FromDouble": ("ptr", "double"),
    "PyFrame_GetBack": ("ptr", "ptr"),
    "PyFrame_GetCode": ("ptr", "ptr"),
    "PyFrame_GetLasti": ("i32", "ptr"),
    "PyIter_Next": ("ptr", "ptr"),
    "PyList_Append": ("i32", "ptr, ptr"),
    "PyList_New": ("ptr", "i64"),
    "PyLong_AsLongLong": ("i64", "ptr"),
    "PyLong_AsLongLongAndOverflow": ("i64", "ptr, ptr"),
    "PyLong_FromLongLong": ("ptr", "i64"),
    "PyNumber_Add": ("ptr", "ptr, ptr"),
    "PyNumber_InPlaceAdd": ("ptr", "ptr, ptr"),
    "PyNumber_InPlaceMultiply": ("ptr", "ptr, ptr"),
    "PyNumber_InPlaceSubtract": ("ptr", "ptr, ptr"),
    "PyNumber_Multiply": ("ptr", "ptr, ptr"),
    "PyNumber_Negative": ("ptr", "ptr"),
    "PyNumber_Subtract": ("ptr", "ptr, ptr"),
    "PyObject_GC_UnTrack": ("void", "ptr"),
    "PyObject_GetAttr": ("ptr", "ptr, ptr"),
    "PyObject_GetItem": ("ptr", "ptr, ptr"),
    "PyObject_GetIter": ("ptr", "ptr"),
    "PyObject_IsInstance": ("i32", "ptr, ptr"),
    "PyObject_IsTrue": ("i32", "ptr"),
    "PyObject_RichCompare": ("ptr", "ptr, ptr, i32"),
    "PyObject_SetAttr": ("i32", "ptr, ptr, ptr"),
    "PyObject_SetItem": ("i32", "ptr, ptr, ptr"),
    "PyObject_Size": ("i64", "ptr"),
    "PyObject_Vectorcall": ("ptr", "ptr, ptr, i64, ptr"),
    "PyObject_VectorcallMethod": ("ptr", "ptr, ptr, i64, ptr"),
    "PyUnicode_Compare": ("i32", "ptr, ptr"),
    "PySequence_Contains": ("i32", "ptr, ptr"),
    "PySequence_Tuple": ("ptr", "ptr"),
    "PySet_Add": ("i32", "ptr, ptr"),
    "PySet_New": ("ptr", "ptr"),
    "PyThreadState_Get": ("ptr", ""),
    "PyThreadState_GetID": ("i64", "ptr"),
    "PyTuple_New": ("ptr", "i64"),
    "PyType_GenericAlloc": ("ptr", "ptr, i64"),
    "Py_EnterRecursiveCall": ("i32", "ptr"),
    "Py_LeaveRecursiveCall": ("void", ""),
}


def capi_address(name: str) -> int:
    """Where the interpreter has a function of its C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def expanded(text: str) -> str:
    """One function's text, with a load of the address and an indirect call for `call@Name(…)`."""
    lines = []
    count = 0
    for line in text.splitlines():
        if "call@" in line:
            before, rest = line.split("call@", 1)
            name, arguments = rest.split("(", 1)
            result, types = CAPI[name]
            count += 1
            lines.append(f"  %f{count} = load ptr, ptr @capi.{name}, !invariant.load !0")
            lines.append(f"{before}call {result} ({types}) %f{count}({arguments}")
        else:
            lines.append(line)
    return "\n".join(lines)


def names() -> list[str]:
    """C functions in the order of their addresses in the table."""
    return list(CAPI)


def addresses() -> list[int]:
    """The addresses that belong to `names`."""
    return list(map(capi_address, CAPI))
