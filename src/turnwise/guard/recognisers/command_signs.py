"""What gives away commands: of shells, of PowerShell and of databases."""

from __future__ import annotations

from collections.abc import Mapping

from turnwise.guard.recognisers.code_types import CodeType

_SHELL_WORDS = (
    r"sudo|apt(?:-get)?|yum|dnf|brew|pip3?|npm|npx|yarn|git|docker|kubectl|curl|wget|chmod|chown|systemctl|ssh|"
    r"scp|"
    r"rsync|tar|grep|sed|awk|cat|ls|cd|rm|mv|cp|mkdir|export|echo|python3?|node|make|nc|bash|sh|kill|find|xargs"
)

_LINE_WORDS = (
    r"python[0-9.]*|node|ruby|perl|php|java|javac|gcc|clang|ssh|scp|rsync|wget|curl|awk|sed|jq|cp|mv|mkdir"
    r"|rmdir|rm|ls|"
    r"touch|chmod|chown|tar|unzip|gunzip|uname|whoami|sleep|reboot|pwd|tail|less|nano|vim|psql|mysql"
    r"|sqlite3|redis-cli|"
    r"systemctl|crontab|history|df|du|ps|dig|nslookup|traceroute|ifconfig|telnet|nc|docker|kubectl|npm|npx"
    r"|pip3?|apt|"
    r"apt-get|git|cd|source|export"
)
"""Commands that begin no line of prose which goes on with an option, path, host or file."""

SIGNS: Mapping[CodeType, tuple[str, ...]] = {
    "shell": (
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
        r"\b(?:python[0-9.]*|perl|ruby|node|php|bash|zsh|sh|osascript"
        r"|pwsh)(?: +-[a-zA-Z]+){0,3} +-[a-zA-Z]*[cepr]"
        r"[a-zA-Z]* +[\"'$\w][^\n]*",
        r"[\w:]{1,20}\(\) *\{[^\n{}]{0,60}\|[^\n{}]{0,60}&[^\n{}]{0,20}\}[^\n]*",
        r"\bfor +\w+ +in +[^\n;]{1,200}; *do\b[^\n]*",
        r"\b(?:while|until) +[^\n;]{1,120}; *do\b[^\n]*",
        r"\bif +\[\[? +[^\n;]{1,120}\]\]?; *then\b[^\n]*",
        r"^[ \t]*(?:for +\w+ +in +[^\n;]{1,200}|while +(?:read|true"
        r"|\[)[^\n;]{0,100});?[ \t]*\n[ \t]*do\b[^\n]*",
        r"\beval +[\"']?(?:\$\(|`)[^\n]*",
        r"\$\((?:curl|wget|cat|ls|find|which|date|whoami|hostname|git|pwd|echo|grep|awk|sed)\b[^\n()]{0,200}\)"
        r"[^\n]*",
        r"\bgit +(?:add|am|apply|bisect|branch|checkout|cherry-pick|clean|clone|commit|config|diff"
        r"|fetch|init|log|"
        r"merge|pull|push|rebase|remote|reset|restore|revert|rm|show|stash|submodule|switch|tag|worktree)"
        r"(?: +[\w./~^@-]+){0,4} +(?:--?[a-zA-Z][\w-]*|origin\b|upstream\b|HEAD\b|https?://|git@)[^\n]*",
        r"\b(?:curl|wget)(?: +-{1,2}[\w-]+(?:[ =][^\s-]\S*)?){1,8} +[\"']?(?:https?://"
        r"|[\w-]+\.[\w.-]+/)[^\n]*",
        r"\b(?:pip[0-9]?|apt|apt-get|brew|yum|dnf|conda|cargo|gem|npm|pnpm|yarn"
        r"|go) +(?:-\S+ +)?(?:install|add)"
        r" +(?:-{1,2}\w[\w-]*[^\n]*|[\w./@-]+ *(?:&&|;|==|@)[^\n]*)",
        r"\b(?:docker|podman|kubectl|helm|terraform|systemctl|journalctl|crontab|iptables|openssl"
        r"|ffmpeg|rsync|scp|"
        r"ssh-keygen|nmap|tar|chown|kill|pkill|mkfs\S*|unzip|ssh|nc|aws|gcloud|az)(?: +[\w./:@-]+){0,4}"
        r"(?: +--?[a-zA-Z][\w-]*| +[a-z]+=/)(?:[ =][^\n]*| *$)",
        r"\bdd +if=[^\n]*",
        r"\b(?:del|erase|rd|rmdir) +(?:/[a-zA-Z] *){1,4}[^\n]*",
        r"\bformat +[a-zA-Z]:[^\n]*",
        r"\b(?:taskkill|schtasks|ipconfig|xcopy|robocopy|attrib|icacls|shutdown|tasklist|netstat|wmic"
        r"|vssadmin|"
        r"bcdedit|cmd(?:\.exe)?) +(?:\S+ +)?[/+-][a-zA-Z?][^\n]*",
        rf"^[ \t]*(?:{_SHELL_WORDS}|{_LINE_WORDS})\b[^\n]{{0,200}}?&& *(?:{_SHELL_WORDS}"
        rf"|{_LINE_WORDS})\b[^\n]*",
        rf"(?:^|[:`])[ \t]*(?:{_LINE_WORDS})(?: +[\w.=:@/~$*+-]+){{0,6}} +(?:-{{1,2}}[a-zA-Z][\w-]*"
        rf"|[~/.$*]\S*|"
        r"\S+\.[a-z]{1,4}|[\w.-]+@[\w.-]+|https?://\S+|[\"'][^\"'\n]{1,100}[\"'][^\n]*)[ \t`]*$",
        r"(?:^|[:`])[ \t]*(?:go +(?:build|run|test|mod|get|install) +[./\w-]+"
        r"|make(?: +-\w+)*(?: +(?:install|clean|all|"
        r"build|test))|cat +[~/.]\S+|kill +-[0-9A-Z]+ +[0-9]+|echo +[\"']?\$\w+[\"']?|(?:systemctl"
        r"|service) +(?:start|"
        r"stop|restart|status|enable|disable) +[\w.@-]+|service +[\w-]+ +(?:start|stop|restart|status)"
        r"|(?:useradd|"
        r"userdel|usermod|adduser|groupadd|killall|pkill) +[\w-]+|echo +[^\n]{1,100} *>>? *[\w~./-]+\.?\w*|"
        r"(?:cargo|gradle|mvn|dotnet|flutter|yarn|pnpm) +(?:build|run|test|clean|package|publish|dev|start)"
        r"(?: +-{1,2}\w[\w-]*)*)[ \t`]*$",
        r"\bnetsh +\w+ +[^\n]*",
        r"\b(?:reg +(?:add|delete|query) +\"?HK|net +(?:user|localgroup|use|stop|start) +\S)[^\n]*",
        r"^[ \t]*@echo +off\b[^\n]*",
        r"^[ \t]*(?:copy|move|dir|type|cd|start) +[\"']?[A-Za-z]:\\[^\n]*",
        r"^[ \t]*(?:[0-9*/,-]+ +){4}[0-9*/,-]+ +(?:/|[\w-]+ +[/-])[^\n]*",
    ),
    "powershell": (
        r"(?i:\b(?:Invoke-(?:Expression|WebRequest|Command|RestMethod)|Set-ExecutionPolicy|Start-Process|"
        r"Get-ChildItem|Get-Content|Set-Content|Get-Service|Stop-Process|Stop-Service|Where-Object"
        r"|ForEach-Object|"
        r"Remove-Item|New-Object|New-Item|Add-Type|Get-Process|Select-Object|Write-(?:Host|Output))\b[^\n]*)",
        r"\b(?:Get|Set|New|Remove|Add|Start|Stop|Enable|Disable|Test|Import|Export)-[A-Z]\w+ +-[A-Z]\w+[^\n]*",
        r"\bpowershell(?:\.exe)? +-(?:e|enc|nop|exec|command|c|w)\w* [^\n]*",
    ),
    "sql": (
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
}
"""Signs by language."""
