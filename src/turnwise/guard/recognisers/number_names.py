"""What people call their numbers, in the usual languages, and how each kind is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from turnwise.guard.recognisers.number_values import NumberValue

_DESIGNATOR = (
    r" ?(?:numbers?|nos?\b\.?|nr\b\.?|num\b\.?|nbr\b\.?|id\b\.?|#|n°|nº|code|identifier|nummer|"
    r"identification number)"
)
_NUMBER = rf"(?:'?s)?(?: card| file| reg(?:istration)?| account)?{_DESIGNATOR}"
"""What makes a name of a word such as "account" without doubt; behind the word."""

_OF = (
    r"(?:(?:número|numero|nombre|numéro|nummer|nº|n°|n\.|no\.?|nro\.?|id) (?:de |del |de la |di |da |do |d'|d’|"
    r"der |van )?"
    r"(?:l[ae] |l'|l’)?)"
)
"""The same before the word, in Romance languages."""


class NumberName(NamedTuple):
    """What a kind of number is called; RE2, in lower case.

    `strong` names are names of nothing else: words may stand between one and its value. `weak` ones are common
    words, right behind which the value stands; `joined` ones are in scripts that put no spaces between words. A
    value may follow a `glued` name without anything between and, if `before`, stand before any ("12345 is my
    ...").
    """

    value: NumberValue
    strong: str
    weak: str = ""
    joined: str = ""
    glued: tuple[str, ...] = ("#",)
    before: bool = True


class NamedKind(NamedTuple):
    """A kind of number that words name; `hints` (RE2, in lower case) are what a text with one has, at least."""

    hints: tuple[str, ...]
    names: tuple[NumberName, ...]


_PASSPORT = NumberValue(5, 6, 9, forms=(r"[cfghjk][cfghjklmnprtvwxyz0-9]{8}",))
_PLATE = NumberValue(
    0,
    forms=(
        r"[a-z]{1,3}(?:[ -][a-z]{1,2})?[ -]?[0-9]{2,4}[ -]?[a-z]{0,3}",
        r"[0-9]{1,4}[ -]?[a-z]{1,3}[ -]?[0-9]{1,4}",
        r"[0-9]{3,4}[ -]?[a-z]{3}",
        r"[a-z][0-9]{1,3}[ -]?[a-z]{3}",
    ),
)

NAMES: Mapping[str, NamedKind] = {
    "passport": NamedKind(
        (r"passp|passep|reisepass|pasaporte|passaporto|护照|パスポート",),
        (
            NumberName(
                _PASSPORT,
                rf"passports?{_NUMBER}|reisepass-?(?:nummer|nr\.?)|{_OF}(?:passeport|pasaporte|passaporto)",
                r"passports?|reisepass|passeport|pasaporte|passaporto|passaporte",
                r"护照号?码?|パスポート番号",
            ),
        ),
    ),
    "driving_licence": NamedKind(
        (r"licen[cs]e|\bdl\b|f(?:ü|u)?hrerschein|permis de|carnet de|permiso de|patente di|licencia de|habilita",),
        (
            NumberName(
                NumberValue(3, 6, 18),
                rf"driv(?:er|ers|er's|ing|er s|ers')['’]? ?(?:'s )?(?:licen[cs]es?|lic\b\.?|permit){_NUMBER}|"
                rf"(?:medical |nursing |professional |pilot |bar |state )?licen[cs]e{_NUMBER}|dl{_NUMBER}|"
                rf"f(?:u|ü)hrerschein-?(?:nummer|nr\.?)|{_OF}(?:permis de conduire|carnet de conducir|permiso de "
                r"conducir|licencia de conducir|patente di guida|patente)",
                r"driv(?:er|ers|er's|ing|er s)['’]? ?licen[cs]es?|driv(?:er|ers|er's|ing|er s) lic\b\.?|dl|"
                r"fuhrerschein|"
                r"führerschein|permis de conduire|carnet de conducir|permiso de conducir|licencia de conducir|"
                r"patente di guida|carteira de habilitação",
            ),
        ),
    ),
    "bank_account": NamedKind(
        (
            r"acc(?:oun)?t|acount|accout|\bacc\b|a/c|konto|cuenta|compte|\bcuenta|\bconta\b|\bconto\b|rekening|"
            r"routing|\baba\b|"
            r"\brtn\b|sort ?code|\bbsb\b|\bclabe\b|账号|帐号|账户|口座",
        ),
        (
            NumberName(
                NumberValue(6),
                r"(?:bank |checking |chequing |savings |current |deposit |brokerage |salary |giro |joint )?"
                rf"(?:account|acount|accout|acct\.?|acc\.?|a/c){_NUMBER}|(?:bank|checking|chequing|savings|"
                rf"current|deposit|"
                rf"brokerage|"
                rf"salary|joint) (?:account|acct)|kontonummer|konto-?nr\.?|bankkonto|{_OF}(?:compte|cuenta|"
                rf"conta|conto)"
                r"(?: (?:bancaire|bancaria|bancária|bancario|corrente|corriente))?|rekeningnummer|rekening|"
                r"cuenta bancaria|compte bancaire|conta bancária|conto corrente|clabe",
                joined=r"(?:银行)?[账帐](?:号|户)(?:号码)?|口座番号",
                glued=("#", "acct"),
            ),
            NumberName(
                NumberValue(6, digits_only=True),
                strong="",
                weak=r"accounts?|acct\.?|acc\.?|a/c|konto|cuenta|compte|conta",
            ),
            NumberName(
                NumberValue(0, forms=(r"[0-9]{2}[ -]?[0-9]{2}[ -]?[0-9]{2}",)),
                rf"(?:sort ?codes?|bsb)(?:{_DESIGNATOR})?",
                before=False,
            ),
            NumberName(NumberValue(9, 9, 9, checked=True), rf"(?:routing|aba|rtn)(?: transit)?(?:{_DESIGNATOR})?"),
        ),
    ),
    "medical_record": NamedKind(
        (
            r"\bmrn|medical rec|\bmed\.? rec|\bpt\.? (?:id|no|#)|health rec|health card|hospital|patient|"
            r"\bchart\b|\bnhs\b|paciente|paziente|"
            r"histor|"
            r"dossier m|cartella|fallnummer|\bnhc\b|prontu|病历|診察券|case file",
        ),
        (
            NumberName(
                NumberValue(4, 5, 16),
                rf"mrns?(?:{_DESIGNATOR})?|(?:medical|med\.?|health|hospital|patient|clinical)(?:'?s)? ?(?:record|"
                rf"rec\b\.?|chart|"
                rf"card|file)(?:{_DESIGNATOR})?|(?:patients?|pt\.?|chart|hospital|nhs|inpatient|"
                rf"outpatient){_NUMBER}|"
                r"nhs (?:no\.?|number)|patienten-?(?:nummer|nr\.?|id)|fall-?(?:nummer|nr\.?)|"
                rf"{_OF}(?:patient|paciente|paziente|historia clínica|historia clinica|historia|dossier médical|"
                r"dossier patient|prontuário)|historia clínica|historia clinica|dossier médical|cartella clinica|"
                r"prontuário|nhc",
                r"patient|nhs",
                r"病历号|診察券番号",
                glued=("#", "mrn"),
            ),
        ),
    ),
    "insurance": NamedKind(
        (
            r"insur|polic|póliza|poliza|apólice|member|subscriber|group (?:no|num|id|#)|medicare|medicaid|assuran|"
            r"assuré|versicher|police d|beneficiary|\bmbi\b|mutuelle|mitglied|polizza|seguro|保険",
        ),
        (
            NumberName(
                NumberValue(5, 6, 20),
                r"(?:(?:health|medical|dental|car|auto|home|life|travel|motor|vision|pet|contents|renters|"
                r"renter's|"
                r"homeowners) )?(?:insurance|policy)(?:'?s)?(?: (?:policy|member|group|certificate|plan|"
                r"subscriber))?"
                rf"(?: card)?{_DESIGNATOR}|insurance (?:policy|member|plan|card)|"
                rf"(?:policy ?holder|member(?:ship)?|subscriber|beneficiary|medicare|medicaid|group|insured)"
                rf"(?:'?s)?{_NUMBER}|(?:medicare|medicaid)(?: card)?|mbi|"
                r"mitglieds-?(?:nummer|nr\.?)|(?:kranken)?versicherten-?(?:nummer|nr\.?)|"
                r"versicherungs-?(?:schein-?)?(?:nummer|nr\.?)|"
                rf"{_OF}(?:police|póliza|poliza|polizza|assuré|assurance|seguro|apólice|sécu(?:rité)?|mutuelle|"
                rf"afiliado)"
                r"(?: d'assurance| de seguro| di assicurazione)?|póliza de seguros?|police d'assurance|polizza",
                r"policy|póliza|poliza|versicherung|insurance",
                r"保険証番号|保険者番号",
            ),
        ),
    ),
    "employee": NamedKind(
        (
            r"employee|\bemp\b|staff|personnel|payroll|badge|worker|personalnummer|personal-?nr|mitarbeiter|"
            r"matric|"
            r"empleado|nómina|dipendente|funcion[aá]rio|社員|工号",
        ),
        (
            NumberName(
                NumberValue(4, 4, 12),
                rf"(?:employee|emp\.?|staff|personnel|payroll|worker|badge|associate){_NUMBER}|employee badge|"
                r"personal-?(?:nummer|nr\.?)|mitarbeiter-?(?:nummer|nr\.?|id)|"
                rf"{_OF}(?:empleado|nómina|dipendente|funcionário|funcionario|employé|salarié)|"
                rf"matricola dipendente|"
                r"matricule",
                r"employee",
                r"社員番号|工号",
            ),
        ),
    ),
    "student": NamedKind(
        (
            r"student|pupil|matri[ck]|enrol|étudiant|etudiant|estudiante|alumno|learner|university id|school id|"
            r"college id|campus id|studente|aluno|学号|学籍",
        ),
        (
            NumberName(
                NumberValue(5, 5, 14),
                rf"(?:student|pupil|learner|enrol?lment|matriculation|university|school|college|campus){_NUMBER}|"
                rf"matrikel-?(?:nummer|nr\.?)|{_OF}(?:étudiant|etudiant|estudiante|alumno|studente|matrícula|"
                rf"matricula|"
                r"aluno)|matricola",
                r"student|studentin",
                r"学号|学籍番号",
            ),
        ),
    ),
    "tax_id": NamedKind(
        (
            r"\btax|\btin\b|\bein\b|\butr\b|\btfn\b|\bitin\b|\bvat\b|steuer|\bidnr|fiscal|\bnif\b|\brfc\b|"
            r"\bcui[tl]\b|"
            r"\bcpf\b|\bcnpj\b|\babn\b|partita iva|\bpan (?:card|number|no)|税号|納税",
        ),
        (
            NumberName(
                NumberValue(4, 8, 18),
                rf"tax(?:payer)?(?:'?s)?(?: (?:file|reference|registration|identification|payer))?{_DESIGNATOR}|"
                rf"tax reference|(?:tin|ein|utr|tfn|itin|vat|abn|nif|rfc|cuit|cuil|cpf|cnpj)(?:{_DESIGNATOR})?|"
                rf"vat (?:reg(?:istration)?){_DESIGNATOR}|unique taxpayer reference|"
                rf"employer identification number|"
                r"steuer-?(?:identifikations-?)?(?:nummer|nr\.?|id)|idnr\.?|"
                rf"{_OF}(?:fiscal|identification fiscale|identificación fiscal|contribuinte)|numéro fiscal|"
                r"codice fiscale|partita iva|pan (?:card|number|no\.?)",
                joined=r"税号|納税者番号",
            ),
        ),
    ),
    "national_id": NamedKind(
        (
            r"national (?:id|ins)|\bni (?:no|num|#)|\bnino\b|social insurance|\bsin (?:no|num|#)|"
            r"\bsin\b[^a-z]*[0-9]|"
            r"aadh?aar|\bdni\b|\bnie\b|\bcurp\b|cédula|cedula|\bid (?:card|no|num|#)|identity|identification|"
            r"ausweis|"
            r"carte d.identit|sécurité sociale|securite sociale|seguridad social|seguro social|\bbsn\b|pesel|"
            r"personnummer|carta d.identit|身份证|マイナンバー|주민|sozialversicherung|government id|emirates id",
        ),
        (
            NumberName(
                NumberValue(6, 7, 20, forms=(r"[a-z]{2} ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[a-d]",)),
                rf"national (?:id|identity|identification|insurance)(?: card)?(?:{_DESIGNATOR})?|(?:ni|nino|"
                rf"sin){_NUMBER}|"
                rf"nino|social insurance(?:{_DESIGNATOR})?|aadh?aar(?: card)?(?:{_DESIGNATOR})?|"
                rf"(?:dni|nie|curp|bsn|pesel)(?:{_DESIGNATOR})?|cédula(?: de (?:identidad|ciudadanía))?|"
                rf"cedula(?: de (?:identidad|ciudadania))?|(?:id|identity) card{_DESIGNATOR}|"
                rf"identity{_DESIGNATOR}|"
                r"(?:government|personal|citizen|resident|emirates) id(?:entity)? ?(?:number|no\.?|card)?|"
                r"(?:personal)?ausweis-?(?:nummer|nr\.?)|personalausweis|sozialversicherungs-?(?:nummer|nr\.?)|"
                rf"{_OF}(?:sécurité sociale|securite sociale|sécu|seguridad social|seguro social|dni|identidad|"
                rf"carte "
                r"d'identité|carta d'identità)|carte d'identité|carta d'identità|documento de identidad|"
                r"personnummer",
                r"sin|id card|ni",
                r"身份证(?:号码?)?|マイナンバー|주민등록번호",
            ),
        ),
    ),
    "vehicle": NamedKind(
        (
            r"\bvin\b|vehicle|chassis|fahrgestell|\bplates?\b|\breg\b|registration|kennzeichen|immatric|matrícula|"
            r"matricula|\btarga\b|\bplaca\b|telaio|bastidor|\bvrm\b|license tag|车牌|车架",
        ),
        (
            NumberName(
                NumberValue(
                    0,
                    forms=(
                        r"[a-hj-npr-z0-9]{17}",
                        r"[a-hj-npr-z0-9]{3}[ -][a-hj-npr-z0-9]{6}[ -][a-hj-npr-z0-9]{8}",
                    ),
                ),
                rf"vins?(?:{_DESIGNATOR})?|vehicle identification(?:{_DESIGNATOR})?|chassis(?:{_DESIGNATOR})?|"
                rf"vehicle{_DESIGNATOR}|fahrgestell-?(?:nummer|nr\.?)|fin|{_OF}(?:châssis|chassis|bastidor|"
                rf"telaio|serie)",
                joined="车架号",
            ),
            NumberName(
                _PLATE,
                rf"(?:licen[cs]e|number|car|registration|vehicle|reg|tag) ?plates?(?:{_DESIGNATOR})?|"
                rf"plate{_DESIGNATOR}|"
                rf"(?:vehicle |car )?(?:registration|reg){_DESIGNATOR}|(?:vehicle|car) (?:registration|reg)|vrm|"
                rf"(?:licen[cs]e )?tag{_DESIGNATOR}|(?:auto)?kennzeichen|immatriculation|"
                rf"plaque d'immatriculation|matrícula|"
                r"numero di targa|targa|placas?",
                r"plates?|reg",
                "车牌号?",
            ),
        ),
    ),
}
"""By kind. Confidence and what may stand between name and value are those of `named_numbers`."""
