"""What gives away languages that run as they are written."""

from __future__ import annotations

from collections.abc import Mapping

from turnwise.guard.recognisers.code_types import CodeType

SIGNS: Mapping[CodeType, tuple[str, ...]] = {
    "html_script": (
        r"(?i:<script\b[^<>]{0,300}>(?:[\s\S]*?</script\s*>|[\s\S]*))",
        r"(?i:\bjavascript:[\w(!%\[][^\s\"'<>]*)",
        r"(?i:<[a-z][^<>\n]{0,300}?\bon(?:error|load|click|mouseover|focus|toggle)\s*=[^<>\n]{1,300}>?)",
        r"(?i:<iframe\b[^<>]{0,300}>)",
    ),
    "python": (
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
        r"\bprint\([\w.]+[(\[][^\n]*\)",
        r"\bprint\(\w+(?: *[-+*/%] *\w+| *\*\* *\w+|, *[\"'\w]+){1,5}\)",
        r"\bimport +\w+(?:\.\w+)*(?:, *\w+)*; *(?:[\w.]+(?:\(| *=)|(?:import|from) +\w)[^\n]*",
        r"\b(?:os|sys|shutil|requests|np|pd|json|time|socket|urllib|pathlib|plt|df|re|random"
        r"|math)\.\w+(?:\.\w+)*"
        r"\([^)\n][^\n]*",
        r"\bopen\([\"'\w][^()\n]{0,100}\)\.(?:read|write|readlines)\([^\n]*",
        r"\b(?:sorted|list|sum|len|max|min|set|dict|map|filter|zip|enumerate|int|str"
        r"|tuple)\([\w.]{1,30}(?:\(|\[)"
        r"[^\n]{0,100}\)\)[^\n]*",
        r"\b(?:list|sum|max|min|set|dict|any|all|sorted|tuple"
        r"|join)\([^\n()]{1,60}(?:\([^\n()]{0,40}\))?[^\n()]{0,40} "
        r"for +\w+ +in +[^\n]*\)",
        r"^[ \t]*(?:return|yield|assert|raise) +[\w.]+(?:\(|\[)[^\n]*[)\]][ \t]*$",
        r"^[ \t]*(?:try|else|finally):[ \t]*\n[ \t]+\w[\w.]*(?:\(| *=)[^\n]*",
        r"^>>> +\S[^\n]*",
        r"^[ \t]*print +[\"'][^\"'\n]*[\"'];?[ \t]*$",
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
    "javascript": (
        r"\bfunction *\w* *\([\w,. ={}\[\]]{0,200}\) *\{[^\n]*",
        r"\b(?:const|var) +(?:\w+|\{[^{}\n]{1,200}\}|\[[^\[\]\n]{1,200}\]) *=[^=\n][^\n]*",
        r"\blet +(?:\w+|\{[^{}\n]{1,200}\}|\[[^\[\]\n]{1,200}\]) *=(?:[^=\n][^\n;]{0,200};"
        r"| *[\w.]*[(\[{\"'`])[^\n]*",
        r"(?:\([\w, ={}]{1,200}\)|\b\w+) *=> *\w+ *(?:[-+*/%]|[<>=!]=) *\w[^\n]*",
        r"\bdb\.\w+\.\w+\([^\n]*",
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
        r"\b(?:fetch|setTimeout|setInterval|alert)\((?:[\"'`(]|[0-9]+\)|\w+(?:,| *[.+]| *=>))[^\n]*",
        r"\b(?:JSON\.(?:parse|stringify)|Object\.(?:keys|entries|assign|values)|Array\.(?:from|isArray)|"
        r"Math\.(?:floor|random|max|min|round)|Promise\.(?:all|race|resolve)|localStorage\.\w+|process\.exit|"
        r"process\.env\.\w+|window\.\w+)(?:\(| *=)[^\n]*",
        r"\bmodule\.exports *=[^\n]*",
        r"\.(?:then|forEach|addEventListener|reduce)\([^)\n][^\n]*",
        r"\.innerHTML *\+?=[^\n]*",
        r"\b(?:const|let|var) +\w+ *= *await\b[^\n]*|\bawait +\w+(?:\.\w+)*\([^\n]*\);?",
        r"\bnew +(?:Promise\(|(?:Date|Map|Set|Array)\((?:\)|[\"'0-9\[]))[^\n]*",
    ),
    "ruby": (
        r"^[ \t]*def +(?:self\.)?\w+[?!]?(?: *\([^()\n]{0,200}\))?[ \t]*$",
        r"^[ \t]*puts +[\"'][^\n]*",
        r"^[ \t]*require(?:_relative)? +['\"][\w/-]+['\"][ \t]*$",
        r"\.\w+(?:\([^()\n]{0,60}\))? *(?:do|\{) *\|\w+(?:, *\w+)*\|[^\n]*",
        r"\battr_(?:accessor|reader|writer) +:\w+[^\n]*",
        r"\bputs +[\"'][^\n]*#\{[^\n]*|\bputs +\w+(?:\.\w+|\[)[^\n]*",
    ),
    "php": (
        r"<\?(?:php|=)(?:[\s\S]*?\?>|[\s\S]*)",
        r"\$_(?:GET|POST|REQUEST|COOKIE|SERVER) *\[[^\n]*",
        r"^[ \t]*\$[a-z_]\w* *= *(?:new |\w+\(|\[|['\"])[^\n]*;",
    ),
    "perl": (
        r"\bmy +(?:[$@%]\w+|\([$@%][^()\n]{0,100}\)) *=[^\n]*",
        r"^[ \t]*use +(?:strict|warnings)\b[^\n]*",
        r"[$@]\w+ *=~ *(?:m|s|tr|y)?/[^\n]*",
        r"\bforeach +my +\$\w+[^\n]*",
        r"\bsub +\w+ *\{[^\n]*",
    ),
    "r": (
        r"\b[a-zA-Z][\w.]*(?:\$\w+)? *<- *(?:[a-zA-Z][\w.]*(?:::\w+)?\(|[0-9]+(?::[0-9]+)?\b *(?:$|;)"
        r"|[\"'])[^\n]*",
        r"\blibrary\([\w.\"']+\)[^\n]*",
        r"(?:%>%|\|>) *\w+\([^\n]*",
        r"\bggplot\(\w+[^\n]*",
    ),
    "lua": (
        r"^[ \t]*local +(?:function +[\w.:]+ *\(|\w+(?:, *\w+)* *= *(?:[\"'{\[#]|[0-9.]+[ \t]*$|(?:nil"
        r"|true|false)\b|\w+[.:(]\w|function\b))[^\n]*",
        r"^[ \t]*function +[\w.:]+ *\([\w., ]{0,100}\)[ \t]*$",
        r"^[ \t]*for +\w+(?:, *\w+)* *(?:=|in) *[^\n;]{1,100} do[ \t]*$",
        r"\bif +[^\n]{1,100}(?:==|~=|<|>) *[^\n]{1,60} then +[\w.]+(?:\(| *=)[^\n]*",
    ),
    "visual_basic": (
        r"(?i:^[ \t]*(?:(?:public|private) +)?(?:sub|function) +\w+\([^()\n0-9]{0,100}\)"
        r"(?: +as +\w+)?[ \t]*$)",
        r"(?i:^[ \t]*(?:dim|redim) +\w+(?:\([^()\n]{0,30}\))? +as +[^\n]*)",
        r"(?i:^[ \t]*end (?:sub|function|if)[ \t]*$)",
        r"(?i:\bset +\w+ *= *(?:\w+\.)?createobject\([^\n]*)",
        r"(?i:\bmsgbox[ (]+[\"'][^\n]*)",
        r"\b(?:Range|Cells|Worksheets|Sheets)\([^()\n]{1,60}\)\.\w+[^\n]*",
    ),
    "lisp": (
        r"\((?:defun|defn|defmacro) +[\w*!?-]+[^\n]*",
        r"\(define +(?:\([\w-]+|[\w-]+ +[(0-9\"'#\[])[^\n]*",
        r"\(let\*? +[(\[]+[\w-]+ +[^\s()\[\]]+[)\] ][^\n]*",
        r"\((?:lambda|fn) +[(\[][^\n]*",
        r"\(ns +[\w-]+\.[\w.-]+[^\n]*",
        r"\((?:println|display|setq|format t|print) +[\"(*][^\n]*",
    ),
    "elixir": (
        r"\bdefmodule +[A-Z][\w.]* +do\b[^\n]*",
        r"\bIO\.(?:puts|inspect)\b[ (][^\n]*",
        r"^[ \t]*defp? +\w+[?!]?(?:\([^\n]{0,100}\))?(?:, do:| do\b)[^\n]*",
        r"\|> *[A-Z]\w*\.\w+[^\n]*",
    ),
}
"""Signs by language."""
