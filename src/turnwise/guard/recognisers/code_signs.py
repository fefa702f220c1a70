"""What gives code away in a text, by language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple

from turnwise.guard.recognisers.spans import Span
from turnwise.linear_regex import LinearRegex

CodeType = Literal[
    "fenced",
    "shell",
    "powershell",
    "sql",
    "html_script",
    "python",
    "javascript",
    "java",
    "c",
    "go",
    "rust",
    "csharp",
    "ruby",
    "kotlin",
    "php",
]
"""What is known: blocks between fences whatever they hold, and languages."""


class Signs(NamedTuple):
    """What gives a language away.

    Args:
        hints: what any of the expressions contains, as RE2 expressions that ignore case.
        sure: RE2 expressions for a line (or tag) that is code by itself.
    """

    hints: tuple[str, ...]
    sure: tuple[str, ...]


_SHELL_WORDS = (
    r"sudo|apt(?:-get)?|yum|dnf|brew|pip3?|npm|npx|yarn|git|docker|kubectl|curl|wget|chmod|chown|systemctl|ssh|"
    r"scp|"
    r"rsync|tar|grep|sed|awk|cat|ls|cd|rm|mv|cp|mkdir|export|echo|python3?|node|make|nc|bash|sh|kill|find|xargs"
)

_SIGNS: Mapping[CodeType, Signs] = {
    "shell": Signs(
        (
            r"#!",
            r"\$ [a-z]",
            r"rm +-",
            r"sudo ",
            r"(?:curl|wget)[^\n]+\|",
            r"chmod ",
            r"(?:&&|\|\|?) *(?:[a-z]+)",
            r"/dev/tcp",
            r"(?:apt|apt-get|yum|dnf|brew|pip3?|npm|git|docker|kubectl) [a-z-]",
            r"\bfind +[./~]",
            r"(?:^|\n)(?:from|run|cmd|entrypoint) ",
            r"(?:^|\n)[ \t]*(?:export|[a-z]+ +-)",
            r"\|[ ]*(?:grep|awk|sed|xargs|sort|head|tail|wc|cut|tee|less|uniq|jq)",
        ),
        (
            r"^#!(?:/usr)?/bin/\S+",
            rf"^[ \t>]*(?:\w+@[\w-]+[:~][^\n$#]{{0,60}})?[$#] (?:{_SHELL_WORDS})\b[^\n]*",
            r"\brm +-[a-z]*[rf][a-z]*(?: +-\S+)* +[\w./~*$-][^\n]*",
            r"\b(?:curl|wget) [^\n|]{1,300}\| *(?:sudo +)?(?:ba|z|da)?sh\b[^\n]*",
            r"\bsudo +(?:-\w+ +)?(?:apt(?:-get)?|yum|dnf|systemctl|rm|chmod|chown|dd|mkfs\S*|su|bash|sh|docker|"
            r"tee|cat)\b[^\n]*",
            r"\bchmod +(?:-R +)?(?:[0-7]{3,4}|[ugoa]*[+-][rwxs]+) +\S+[^\n]*",
            r"(?:bash|sh|nc)\b[^\n]{0,60}/dev/tcp/\S+[^\n]*",
            rf"^[ \t]*(?:{_SHELL_WORDS}) [^\n]{{1,200}}?(?:&&|\|\|?|;|>>?) *(?:{_SHELL_WORDS})\b[^\n]*",
            r"^[ \t]*(?:(?:apt|apt-get|yum|dnf|brew|pip3?) (?:-\w+ )*install|npm (?:install|i|run)|"
            r"git (?:clone|commit|push|pull|checkout|rebase)|docker (?:run|build|exec|compose)|kubectl (?:get|"
            r"apply|delete)) [\w@./:-][^\n]*",
            r"\bfind +[./~]\S*[^\n]{0,200} -(?:delete|exec|name|iname|type|mtime|size)\b[^\n]*",
            r"\b(?:ps|cat|ls|grep|find|curl|echo|kubectl|docker|git|tail|head|sort|du|df|netstat|lsof|dmesg|"
            r"journalctl|history)\b[^\n|]{0,200}\| *(?:grep|awk|sed|xargs|sort|head|tail|wc|cut|tee|less|uniq|"
            r"jq)\b[^\n]*",
            r"^[ \t]*(?:tar|kill|pkill|grep|sed|awk|ls|cp|mv|mkdir|ssh|scp|rsync|dd|du|ps|head|tail|wget|curl|"
            r"nc|nmap|ping|docker|git) +--?[a-z][^\n]*",
            r"^[ \t]*echo +[\"'][^\n]{1,200}[\"'] *>>? *[\w./~][^\n]*",
            r"^FROM +[\w./-]+:[\w.-]+[^\n]*",
            r"^(?:RUN +(?:pip|apt|apt-get|npm|yum|apk|curl)\b|(?:CMD|ENTRYPOINT) +\[)[^\n]*",
            r"^[ \t]*export +[A-Z][A-Z0-9_]*=[^\n]*",
        ),
    ),
    "powershell": Signs(
        (r"(?:get|set|new|invoke|start|remove|add|stop|write)-[a-z]", "powershell "),
        (
            r"\b(?:Invoke-(?:Expression|WebRequest|Command|RestMethod)|Set-ExecutionPolicy|Start-Process|"
            r"Get-ChildItem|"
            r"Remove-Item|New-Object|Add-Type|Get-Process|Write-(?:Host|Output))\b[^\n]*",
            r"\bpowershell(?:\.exe)? +-(?:e|enc|nop|exec|command|c|w)\w* [^\n]*",
        ),
    ),
    "sql": Signs(
        (
            r"select[\s\S]+from",
            r"(?:insert +into|delete +from|drop +|alter +|create +|truncate +)",
            r"update .+ set ",
            r"' *or *'?[0-9a-z]",
            r"union +(?:all +)?select",
            r"grant [^\n]+ to ",
        ),
        (
            r"\bSELECT\s+(?:DISTINCT\s+)?(?:\*|[\w.\"`(),*\s]{1,200}?)\s+FROM\s+[\w.\"`]+[^\n;]*;?",
            r"(?i:\bselect\s+(?:\*|count\(|[\w.]+(?:,\s*[\w.]+){1,20})[^\n;]{0,100}?\s+from\s+[\w.\"`]+"
            r"(?:\s+(?:where|join|order by|group by|limit|inner|left)\b[^\n]*|\s*;|\s*$))",
            r"(?i:\binsert\s+into\s+[\w.\"`]+\s*(?:\([^()\n]{1,300}\)\s*)?(?:values\s*\([^\n]*|select\b[^\n]*))",
            r"(?i:\bupdate\s+[\w.\"`]+\s+set\s+[\w.\"`]+\s*=[^\n]*)",
            r"(?i:\bdelete\s+from\s+[\w.\"`]+\s*(?:;|where\s+[\w.\"`]+\s*(?:=|<|>|in\b|like\b)[^\n]*))",
            r"\bDELETE\s+FROM\s+[\w.\"`]+",
            r"(?i:\b(?:drop|truncate)\s+table\s+(?:if\s+exists\s+)?[\w.\"`]+\s*;)|\b(?:DROP|TRUNCATE)\s+"
            r"(?:TABLE|DATABASE|SCHEMA)\s+[\w.\"`]+[^\n]*",
            r"(?i:\b(?:create|alter)\s+table\s+(?:if\s+not\s+exists\s+)?[\w.\"`]+\s*(?:\(|add\b|drop\b)[^\n]*)",
            r"(?i:\bunion\s+(?:all\s+)?select\s+(?:\*|null\b|[0-9'\"@]|[\w.]+\s*(?:,|\(|from\b))[^\n]*)",
            r"(?i:['\"]\s*or\s+(?:'[^'\n]{0,20}'\s*=\s*'|[0-9]{1,5}\s*=\s*[0-9])[^\n]*)",
            r"\b(?:CREATE|DROP|ALTER) +(?:OR +REPLACE +)?(?:UNIQUE +)?(?:INDEX|VIEW|FUNCTION|PROCEDURE|TRIGGER|"
            r"USER|DATABASE|SCHEMA) +[\w.]+[^\n]*",
            r"(?i:\bselect\s+[\w.]+\s+from\s+[\w.]+\s+where\s+[\w.]+\s*(?:=|<|>|like\b|in\b)[^\n]*)",
            r"\bGRANT +[A-Z, ]{3,80} +ON +[\w.*]+ +TO +\w+[^\n]*",
        ),
    ),
    "html_script": Signs(
        ("<script", "javascript:", r"on(?:error|load|click|mouseover|focus)\s*=", "<iframe", "srcdoc"),
        (
            r"(?i:<script\b[^<>]{0,300}>(?:[\s\S]*?</script\s*>|[\s\S]*))",
            r"(?i:\bjavascript:[\w(!%\[][^\s\"'<>]*)",
            r"(?i:<[a-z][^<>\n]{0,300}?\bon(?:error|load|click|mouseover|focus|toggle)\s*=[^<>\n]{1,300}>?)",
            r"(?i:<iframe\b[^<>]{0,300}>)",
        ),
    ),
    "python": Signs(
        (
            r"(?:^|\n)[ \t>]*(?:import|from|def|class|async|if __name__|print\()",
            r"\b(?:eval|exec|print)\(",
            "os.system|subprocess",
            "__import__",
            r"(?:^|\n)[ \t]*(?:for|while|if|with|try|elif|else|except)\b[^\n]*:",
            r"\blambda\b",
            r"\bself\.\w",
            r"(?:^|\n)[ \t]*@\w",
            r"\bfor \w+[^\n]{0,80}:",
            r" for \w+(?:, *\w+)* in ",
            r"traceback \(most",
            r"\.\w+\([^()\n]*\)(?:\.\w+\(|\[)",
            r"\w+ *= *\w+\.\w+\(",
            r"\bwith +[\w.]+\(",
        ),
        (
            r"^[ \t>]*(?:async +)?def +\w+ *\([^\n]{0,300}\) *(?:->[^\n:]{1,80})?:[^\n]*",
            r"^[ \t>]*class +\w+ *(?:\([\w., =\[\]]{0,200}\))?:[ \t]*$",
            r"^[ \t>]*from +[\w.]+ +import +[\w*(][^\n.]*$",
            r"^[ \t>]*import +[a-z_][\w.]*(?: +as +\w+)?(?:, *[a-z_][\w.]*)* *$",
            r"\b(?:os\.system|os\.popen|subprocess\.(?:run|Popen|call|check_output)|__import__) *"
            r"\([\"'fr\[\w][^\n]*",
            r"^[ \t]*if __name__ *== *['\"]__main__['\"]:[^\n]*",
            r"^[ \t>]*print\((?:[\"'f]|\w+[.(),])[^\n]*\)[ \t]*$",
            r"^[ \t]*(?:for +\w+(?:, *\w+)* +in +[^\n:]{1,100}\([^\n:]{0,100}|while +(?:True|"
            r"[\w.]+ *[<>=!]=?[^\n:]{1,80})):[ \t]*(?:#[^\n]*)?$",
            r"\bprint\(f?[\"\'][^\n]*",
            r"[\[{][^\n\[\]{}]{1,80}? for +\w+(?:, *\w+)* +in +[\w.]+(?:\([^\n()]{0,60}\))?"
            r"(?: if [^\n\]}]{1,80})?[\]}]",
            r"\bwith +[\w.]+\([^\n]{0,200}\) +as +\w+:",
            r"^[ \t>]*Traceback \(most recent call last\):[^\n]*",
            r"^[ \t>]*File \"[^\"\n]{1,200}\", line [0-9]+[^\n]*",
            r"[=(,] *lambda\b[^:\n]{0,60}: *[^\n]*",
            r"\bfor +\w+(?:, *\w+)* +in +[\w.]+(?:\([^()\n]{0,60}\))?: *(?:[\w.]+\(|[\w.]+ *[+-]?=)[^\n]*",
            r"^[ \t]*(?:el)?if +[\w.]+ *(?:[<>]=?|[=!]=) *[\w.\"']+:[ \t]*$",
            r"\bself\.\w+(?:\.\w+){0,5}(?:\(| *=)[^\n]*",
            r"\blambda +\w+(?:, *\w+)*: *[\w(][^\n]*",
            r"^[ \t]*@\w+(?:\.\w+)*\([^\n]*\)[ \t]*$",
            r"^[ \t]*except(?: +[A-Z][\w.]*(?: +as +\w+)?)?:[ \t]*$",
            r"\b\w+\.\w+\([^()\n]{0,80}\)(?:\.\w+\(|\[[\"\'])[^\n]*",
            r"^[ \t]*\w+ *= *\w+\.\w+\([^\n]*\)[ \t]*$",
        ),
    ),
    "javascript": Signs(
        (
            r"function",
            r"=>",
            r"console\.",
            r"\b(?:const|let|var) ",
            r"require\(",
            r"document\.",
            r"\beval\(",
            r"\b(?:interface|export|import) ",
            r"\basync ",
            r"usestate",
        ),
        (
            r"\bfunction *\w* *\([\w,. ={}\[\]]{0,200}\) *\{[^\n]*",
            r"\b(?:const|let|var) +(?:\w+|\{[^{}\n]{1,200}\}|\[[^\[\]\n]{1,200}\]) *=[^=\n][^\n]*",
            r"(?:\([\w, ={}]{0,200}\)|\b\w+) *=> *(?:\{|\(|\w+[.(])[^\n]*",
            r"\bconsole\.(?:log|error|warn) *\([^\n]*",
            r"\bdocument\.(?:cookie|write|getElementById|querySelector|location)\b[^\n]*",
            r"\brequire\(['\"][\w@./-]+['\"]\)[^\n]*",
            r"\beval\((?:atob|['\"`])[^\n]*",
            r"\binterface +\w+ *\{[^\n]*",
            r"\bexport +(?:default|const|function|class)\b[^\n]*",
            r"^[ \t]*import +[^\n]{1,100} +from +[\"\'][^\"\'\n]+[\"\'][^\n]*",
            r"\btype +[A-Z]\w* *= *[{\"\'][^\n]*",
            r"\basync +function\b[^\n]*",
        ),
    ),
    "java": Signs(
        ("public ", "system.out", "private ", "import java", r"\w<\w+>", r"@override", r"\bnew [a-z]"),
        (
            r"\b(?:public|private|protected) +(?:static +|final +|abstract +)*(?:class|interface|enum|void|int|"
            r"String|boolean|double|long|List<\w+>) +\w+ *(?:\(|\{|=|;|extends|implements)[^\n]*",
            r"\bSystem\.out\.print(?:ln|f)? *\([^\n]*",
            r"^[ \t]*import +java[\w.*]+ *;",
            r"\b(?:List|Map|Set|ArrayList|HashMap|Optional)<[\w<>, ]{1,60}> +\w+ *[=;][^\n]*",
            r"^[ \t]*@Override[ \t]*$",
            r"= *new +[A-Z]\w*(?:<[^<>\n]{0,60}>)?\([^\n]*\);",
        ),
    ),
    "c": Signs(
        (
            "#include",
            "cout *<<",
            "#define",
            "int main",
            "printf",
            "malloc",
            r"std::",
            r"\b(?:for|if|while|switch) *\(",
            r"\b(?:int|char|float|double|void|bool) ",
        ),
        (
            r"^[ \t]*# *include *[<\"][\w./+-]+[>\"][^\n]*",
            r"\bint +main *\([^()\n]{0,100}\) *\{?[^\n]*",
            r"^[ \t]*# *define +[A-Z_]\w*[^\n]*",
            r"\b(?:std::)?(?:printf|cout|malloc|strcpy) *(?:\(\"|\(\w|<<)[^\n;]*;",
            r"\bstd::\w+[<(:;, ][^\n]*",
            r"\bfor *\((?:int|let|var|auto|size_t)? *\w+ *= *[^;\n]{1,60};[^;\n]{1,60};[^)\n]{1,60}\)[^\n]*",
            r"\b(?:if|while|for|switch) *\([^\n{]{1,120}\) *\{[^\n]*",
            r"^[ \t]*(?:unsigned +|const +|static +)*(?:int|char|float|double|void|"
            r"bool) +\*?\w+(?:\[[0-9]*\])? *(?:=[^\n]*;|;|\([^()\n]{0,100}\) *\{)[^\n]*",
        ),
    ),
    "go": Signs(
        ("func ", "package ", ":= ", r"err *!= *nil", r"fmt\.print"),
        (
            r"^[ \t]*func +(?:\([^()\n]{1,60}\) *)?\w+ *\([^()\n]{0,200}\)[^\n{]{0,100}\{[^\n]*",
            r"^package +[a-z]\w*[ \t]*$",
            r"^[ \t]*\w+(?:, *\w+)? *:= +[^\n]*\([^\n]*",
            r"\bif +err *!= *nil *\{?[^\n]*",
            r"\bfmt\.(?:Print|Sprint|Fprint|Error)\w*\([^\n]*",
        ),
    ),
    "rust": Signs(
        ("fn ", "let mut", "println!", "impl ", r"\blet \w+: "),
        (
            r"\b(?:pub +)?fn +\w+ *(?:<[^<>\n]{1,80}>)? *\([^()\n]{0,200}\)[^\n{]{0,100}\{[^\n]*",
            r"\blet +mut +\w+[^\n]*",
            r"\b(?:println|format|vec|panic)! *[(\[][^\n]*",
            r"^[ \t]*impl(?:<[^<>\n]{1,80}>)? +\w+[^\n]{0,100}\{",
            r"\blet +\w+: *[&\w<>]{1,40} *=[^\n]*",
        ),
    ),
    "csharp": Signs(
        (r"console\.(?:write|read)", r"(?:^|\n)[ \t]*using [a-z]", r"namespace "),
        (
            r"\bConsole\.(?:Write|Read)(?:Line|Key)?\([^\n]*",
            r"^[ \t]*using +[A-Z][\w.]*;[^\n]*",
            r"\bnamespace +[A-Za-z_][\w.]* *[{;][^\n]*",
        ),
    ),
    "ruby": Signs(
        (r"(?:^|\n)[ \t]*(?:def|puts|require) ", r"do +\|", r"\.each"),
        (
            r"^[ \t]*def +(?:self\.)?\w+[?!]?(?: *\([^()\n]{0,200}\))?[ \t]*$",
            r"^[ \t]*puts +[\"'][^\n]*",
            r"^[ \t]*require(?:_relative)? +['\"][\w/-]+['\"][ \t]*$",
            r"\.\w+ *(?:do|\{) *\|\w+(?:, *\w+)*\|[^\n]*",
        ),
    ),
    "kotlin": Signs(
        (r"\bfun \w+ *\(", r"println\(", r"\bva[lr] \w+"),
        (
            r"\bfun +\w+ *\([^()\n]{0,200}\)[^\n{=]{0,60}[{=][^\n]*",
            r"\bprintln\([\"\w][^\n]*",
            r"^[ \t]*val +\w+(?:: *\w+)? *=[^\n]*",
        ),
    ),
    "php": Signs(
        (r"<\?php", r"<\?=", r"\$_(?:get|post|request|cookie|server)", r"\$[a-z_]+ *="),
        (
            r"<\?(?:php|=)(?:[\s\S]*?\?>|[\s\S]*)",
            r"\$_(?:GET|POST|REQUEST|COOKIE|SERVER) *\[[^\n]*",
            r"^[ \t]*\$[a-z_]\w* *= *(?:new |\w+\(|\[|['\"])[^\n]*;",
        ),
    ),
}
"""Signs by language."""

HINTS: Mapping[CodeType, tuple[str, ...]] = {
    "fenced": (r"(?:^|\n)[ \t>]{0,9}(?:```|~~~)",),
    **{kind: signs.hints for kind, signs in _SIGNS.items()},
}
"""What a text has, at least, in which there may be code of a kind; RE2, ignoring case."""

_MATCHES = 200
"""Matches of an expression that are told apart; where there are more, the rest of the text counts as one."""

_FENCE = LinearRegex(r"(?m)^[ \t>]{0,9}(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]{0,200})$")
_PROSE = frozenset({"text", "txt", "plain", "plaintext", "quote", "poem"})
_CODE = LinearRegex(r"(?m)[={}()<>;\[\]$|\\]|^\s*#|--\w")


def find_fenced(plain: str) -> Iterator[Span]:
    """Find blocks between fences of Markdown, but those marked as plain text, and unmarked ones without any sign.

    Source: CommonMark 0.31, section 4.5.

    Args:
        plain: the text in plain form, case kept.
    """
    opened: tuple[int, str, str] | None = None  # where the block begins, its fence, and what stands behind that
    count = end = 0
    for spans in _FENCE.spans(plain):
        (start, behind), fence, info = spans[0], plain[slice(*spans[1])], plain[slice(*spans[2])].strip()
        if opened is None:
            opened, end = (start, fence, info), behind
        elif not info and fence[0] == opened[1][0] and len(fence) >= len(opened[1]):
            count += 1
            if count > _MATCHES:
                break
            if _is_code(opened[2], plain[end:start]):
                yield Span(opened[0], behind, "fenced", 0.95 if opened[2] else 0.8)
            opened = None
    if opened is not None and _is_code(opened[2], plain[end:]):
        yield Span(opened[0], len(plain), "fenced", 0.7)


def _is_code(info: str, body: str) -> bool:
    language = info.lower().split(" ")[0]
    if language in _PROSE or not body.strip():
        return False
    return bool(language) or _CODE.search(body) is not None


def find_code(plain: str, kind: CodeType) -> Iterator[Span]:
    """Find the code of a language, line by line.

    Args:
        plain: the text in plain form, case kept.
        kind: any but ``fenced``.
    """
    end = len(plain)
    masked = _in_ascii(plain)
    for sign in _SIGNS[kind].sure:
        for count, match in enumerate(_line(sign).finditer(masked[:end])):
            start, behind = match.start, match.end
            if count == _MATCHES:
                yield Span(start, len(plain), kind, 0.85)
                end = start
                break
            yield Span(start, behind, kind, 0.85)


def _in_ascii(plain: str) -> str:
    """Return a text of the same length with what RE2 takes for a letter, a space or a sign as Unicode does."""
    if plain.isascii():
        return plain
    others = (character for character in set(plain) if not character.isascii())
    return plain.translate(
        {ord(each): "_" if each.isalnum() else " " if each.isspace() else "~" for each in others}
    )


@cache
def _line(sign: str) -> LinearRegex:
    return LinearRegex(f"(?m){sign}")
