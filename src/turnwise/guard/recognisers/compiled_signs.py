"""What gives away languages that are compiled."""

from __future__ import annotations

from collections.abc import Mapping

from turnwise.guard.recognisers.code_types import CodeType

SIGNS: Mapping[CodeType, tuple[str, ...]] = {
    "java": (
        r"\b(?:public|private|protected) +(?:static +|final +|abstract +)*(?:class|interface|enum|void|int|"
        r"String|boolean|double|long|List<\w+>) +\w+ *(?:\(|\{|=|;|extends|implements)[^\n]*",
        r"\bSystem\.out\.print(?:ln|f)? *\([^\n]*",
        r"^[ \t]*import +java[\w.*]+ *;",
        r"\b(?:List|Map|Set|ArrayList|HashMap|Optional)<[\w<>, ]{1,60}> +\w+ *[=;][^\n]*",
        r"^[ \t]*@Override[ \t]*$",
        r"\b(?:String|boolean|char)(?:\[\])? +\w+ *=[^\n]*;",
        r"= *new +[A-Z]\w*(?:<[^<>\n]{0,60}>)?\([^\n]*\);",
    ),
    "c": (
        r"^[ \t]*# *include *[<\"][\w./+-]+[>\"][^\n]*",
        r"\bint +main *\([^()\n]{0,100}\) *\{?[^\n]*",
        r"^[ \t]*# {0,3}define +[A-Z_]\w*[^\n]*",
        r"\b(?:std::)?(?:printf|cout|malloc|strcpy) *(?:\(\"|\(\w|<<)[^\n;]*;",
        r"\bstd::\w+[<(:;, ][^\n]*",
        r"\bfor *\((?:int|let|var|auto|size_t)? *\w+ *= *[^;\n]{1,60};[^;\n]{1,60};[^)\n]{1,60}\)[^\n]*",
        r"\b(?:if|while|for|switch) *\([^\n{]{1,120}\) *\{[^\n]*",
        r"\b(?:vector|map|unordered_map|set|pair|unique_ptr"
        r"|shared_ptr)<[\w:<>, *]{1,60}> *[&*]? *\w+[^\n]*[;({][^\n]*",
        r"\busing +namespace +\w+;[^\n]*",
        r"^[ \t]*(?:unsigned +|const +|static +)*(?:int|char|float|double|void|"
        r"bool) +\*?\w+(?:\[[0-9]*\])? *(?:=[^\n]*;|;|\([^()\n]{0,100}\) *\{)[^\n]*",
    ),
    "go": (
        r"^[ \t]*func +(?:\([^()\n]{1,60}\) *)?\w+ *\([^()\n]{0,200}\)[^\n{]{0,100}\{[^\n]*",
        r"^package +[a-z]\w*[ \t]*$",
        r"^[ \t]*\w+(?:, *\w+)? *:= +[^\n]*\([^\n]*",
        r"\bif +err *!= *nil *\{?[^\n]*",
        r"\bfmt\.(?:Print|Sprint|Fprint|Error)\w*\([^\n]*",
    ),
    "rust": (
        r"\b(?:pub +)?fn +\w+ *(?:<[^<>\n]{1,80}>)? *\([^()\n]{0,200}\)[^\n{]{0,100}\{[^\n]*",
        r"\blet +mut +\w+[^\n]*",
        r"\b(?:println|format|vec|panic)! *[(\[][^\n]*",
        r"^[ \t]*impl(?:<[^<>\n]{1,80}>)? +\w+[^\n]{0,100}\{",
        r"\blet +\w+: *[&\w<>]{1,40} *=[^\n]*",
    ),
    "csharp": (
        r"\bConsole\.(?:Write|Read)(?:Line|Key)?\([^\n]*",
        r"^[ \t]*using +[A-Z][\w.]*;[^\n]*",
        r"\bnamespace +[A-Za-z_][\w.]* *[{;][^\n]*",
    ),
    "kotlin": (
        r"\bfun +\w+ *\([^()\n]{0,200}\)[^\n{=]{0,60}[{=][^\n]*",
        r"\bprintln\([\"\w][^\n]*",
        r"^[ \t]*val +\w+(?:: *\w+)? *=[^\n]*",
    ),
    "swift": (
        r"\bfunc +\w+ *(?:<[^<>\n]{1,60}>)? *\([^()\n]{0,200}\)[^\n{]{0,100}\{[^\n]*",
        r"\b(?:guard|if) +(?:let|var) +\w+ *=[^\n]*",
        r"^[ \t]*import +(?:Foundation|SwiftUI|UIKit)[ \t]*$",
        r"\b(?:let|var) +\w+ *: *\[?[A-Z]\w*[\]?!]* *=[^\n]*",
    ),
    "scala": (
        r"\bdef +\w+ *(?:\[[^\[\]\n]{1,60}\])?(?:\([^()\n]{0,200}\))? *: *[A-Z][\w\[\], ]{0,60} *=[^\n]*",
        r"\bobject +[A-Z]\w* +(?:extends +\w+ *)?\{?[ \t]*$|\bobject +[A-Z]\w* +extends +[^\n]*",
        r"\bcase +class +[A-Z]\w*\([^\n]*",
    ),
    "haskell": (
        r"^[ \t]*[a-z]\w*'* *:: *(?:[A-Z(\[a-z][^\n]*(?:->|=>|IO)[^\n]*|[A-Z]\w*[ \t]*$)",
        r"^[ \t]*module +[A-Z][\w.]* +(?:\([^\n]*\) +)?where\b[^\n]*",
        r"^[ \t]*import +qualified +[A-Z][^\n]*",
        r"\bputStrLn +[\"$(][^\n]*",
    ),
    "assembly": (
        r"\b(?:movl?|movq|lea|xor|sub|cmp)[ \t]+%?[er]?[abcds][xilp]\b *,[^\n]*",
        r"\b(?:add|and|or)[ \t]+(?:%[er]?|[er])[abcds][xilp]\b *,[^\n]*",
        r"\b(?:push|pop)[ \t]+%?[er][abcds][xilp]\b[^\n]*",
        r"\bint[ \t]+\$?0x80\b[^\n]*",
        r"^[ \t]*(?:section +\.|\.globl? +|\.section +)\w+[^\n]*",
    ),
}
"""Signs by language."""
