//! Which faults there are, and how each is written into the sources.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    parse_quote, BinOp, Block, Expr, ExprBinary, ExprUnary, GenericArgument, ImplItemConst, ImplItemFn,
    ItemConst, ItemFn, ItemMod, ItemStatic, Pat, PathArguments, ReturnType, Signature, Stmt, Type, UnOp,
};

/// What a planted tree asks. `SAROUTER_MUTANT` is the one fault that is there; `SAROUTER_REACHED` the file that is
/// told which ones were asked for.
const SWITCH: &str = r#"//! Planted.
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

pub(crate) fn on(id: usize) -> bool {
    static ACTIVE: OnceLock<(usize, Option<std::ffi::OsString>)> = OnceLock::new();
    let (active, told) = ACTIVE.get_or_init(|| {
        let active = std::env::var("SAROUTER_MUTANT").ok().and_then(|id| id.parse().ok());
        (active.unwrap_or(usize::MAX), std::env::var_os("SAROUTER_REACHED"))
    });
    if let Some(file) = told {
        if !REACHED[id].swap(true, Ordering::Relaxed) {
            let file = std::fs::File::options().append(true).create(true).open(file);
            let _ = file.and_then(|mut file| file.write_all(format!("{id}\n").as_bytes()));
        }
    }
    *active == id
}
"#;

/// The faults planted so far.
struct Planter {
    file: String,
    list: String,
    count: usize,
}

/// Plants faults in all sources below the paths, tests left out, and lists them.
pub fn plant(tree: &Path, list: &Path, paths: &[&str]) {
    let mut planter = Planter { file: String::new(), list: String::new(), count: 0 };
    for path in paths {
        for file in sources(&tree.join(path)) {
            planter.file = file.strip_prefix(tree).unwrap().display().to_string();
            let mut syntax = syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap();
            planter.visit_file_mut(&mut syntax);
            fs::write(&file, prettyplease::unparse(&syntax)).unwrap();
        }
    }
    let root = tree.join("src/lib.rs");
    let text = fs::read_to_string(&root).unwrap();
    fs::write(&root, text + "\nmod mutant;\n").unwrap();
    let switch = SWITCH.replace("COUNT", &planter.count.to_string());
    fs::write(tree.join("src/mutant.rs"), switch).unwrap();
    fs::write(list, planter.list).unwrap();
}

/// The Rust files at or below a path, without those of tests, in order.
fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_path_buf()];
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    let ours = |p: &PathBuf| p.file_stem().is_some_and(|stem| stem != "tests");
    entries
        .into_iter()
        .filter(ours)
        .filter(|p| p.is_dir() || p.extension().is_some_and(|e| e == "rs"))
        .flat_map(|p| sources(&p))
        .collect()
}

/// Whether attributes make something part of tests alone.
fn of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        let text = a.to_token_stream().to_string();
        text.contains("cfg (test)") || text.contains("cfg(test)") || text == "# [test]"
    })
}

impl Planter {
    /// The question for a new fault.
    fn fault(&mut self, at: Span, what: &str) -> Expr {
        let id = self.count;
        self.count += 1;
        writeln!(self.list, "{id} {}:{} {what}", self.file, at.start().line).unwrap();
        parse_quote!(crate::mutant::on(#id))
    }

    /// A comparison with other operators in its place.
    fn comparison(&mut self, binary: &ExprBinary, others: &[BinOp]) -> Expr {
        let mut so = Expr::Binary(binary.clone());
        for other in others {
            let (was, is) = (binary.op.to_token_stream(), other.to_token_stream());
            let asked = self.fault(binary.op.span(), &format!("`{was}` is `{is}`"));
            let wrong = Expr::Binary(ExprBinary { op: *other, ..binary.clone() });
            so = parse_quote!(if #asked { #wrong } else { #so });
        }
        parse_quote!((#so))
    }

    /// "And" in place of "or", or the other way round. The left side is written once, else long chains would grow
    /// by powers of two.
    fn logic(&mut self, binary: &ExprBinary, other: BinOp) -> Expr {
        let (was, left, right) = (&binary.op, &binary.left, &binary.right);
        let what = format!("`{}` is `{}`", was.to_token_stream(), other.to_token_stream());
        let asked = self.fault(was.span(), &what);
        parse_quote!({
            let left: bool = #left;
            if #asked { left #other (#right) } else { left #was (#right) }
        })
    }

    /// Answers at once, where the answer's type has a plain one.
    fn body(&mut self, signature: &Signature, block: &mut Block) {
        let at = signature.ident.span();
        for answer in answers(&signature.output) {
            let text = answer.to_token_stream().to_string();
            let asked = self.fault(at, &format!("`{}` answers `{text}` at once", signature.ident));
            block.stmts.insert(0, parse_quote!(if #asked { return #answer; }));
        }
    }
}

/// What a function may answer instead: simple values of its type, none where no such value is known.
fn answers(output: &ReturnType) -> Vec<Expr> {
    match output {
        ReturnType::Default => vec![parse_quote!(())],
        ReturnType::Type(_, of) => values(of),
    }
}

fn values(of: &Type) -> Vec<Expr> {
    let Type::Path(path) = of else {
        return if matches!(of, Type::Tuple(t) if t.elems.is_empty()) {
            vec![parse_quote!(())]
        } else {
            Vec::new()
        };
    };
    let last = path.path.segments.last().unwrap();
    match last.ident.to_string().as_str() {
        "bool" => vec![parse_quote!(true), parse_quote!(false)],
        "usize" | "u8" | "u16" | "u32" | "u64" | "i64" => vec![parse_quote!(0), parse_quote!(1)],
        "f64" => vec![parse_quote!(0.0), parse_quote!(1.0)],
        "String" | "Vec" | "BTreeMap" | "BTreeSet" => {
            let name = &last.ident;
            vec![if name == "String" || name == "Vec" {
                parse_quote!(#name::new())
            } else {
                parse_quote!(std::collections::#name::new())
            }]
        }
        "Option" => vec![parse_quote!(None)],
        "Result" => {
            let PathArguments::AngleBracketed(of) = &last.arguments else { return Vec::new() };
            let Some(GenericArgument::Type(of)) = of.args.first() else { return Vec::new() };
            values(of).into_iter().map(|value| parse_quote!(Ok(#value))).collect()
        }
        _ => Vec::new(),
    }
}

impl VisitMut for Planter {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        let changed = match &*expr {
            Expr::Binary(binary) => match binary.op {
                BinOp::Eq(_) => self.comparison(binary, &[parse_quote!(!=)]),
                BinOp::Ne(_) => self.comparison(binary, &[parse_quote!(==)]),
                BinOp::Lt(_) => self.comparison(binary, &[parse_quote!(<=), parse_quote!(>)]),
                BinOp::Le(_) => self.comparison(binary, &[parse_quote!(<), parse_quote!(>)]),
                BinOp::Gt(_) => self.comparison(binary, &[parse_quote!(>=), parse_quote!(<)]),
                BinOp::Ge(_) => self.comparison(binary, &[parse_quote!(>), parse_quote!(<)]),
                BinOp::And(_) => self.logic(binary, parse_quote!(||)),
                BinOp::Or(_) => self.logic(binary, parse_quote!(&&)),
                _ => return,
            },
            Expr::Unary(ExprUnary { op: UnOp::Not(not), expr: inner, .. }) => {
                let asked = self.fault(not.span(), "`!` is not there");
                parse_quote!((if #asked { #inner } else { !#inner }))
            }
            _ => return,
        };
        *expr = changed;
    }

    /// A call for its effect alone is left out.
    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        visit_mut::visit_stmt_mut(self, stmt);
        let Stmt::Expr(expr, Some(_)) = &*stmt else { return };
        let effect = match expr {
            Expr::MethodCall(_) | Expr::Call(_) | Expr::Await(_) | Expr::Try(_) => true,
            Expr::Binary(binary) => binary.op.to_token_stream().to_string().ends_with('='),
            _ => false,
        };
        if effect {
            let asked = self.fault(expr.span(), "the statement is not there");
            *stmt = parse_quote!(if !#asked { #expr; });
        }
    }

    fn visit_item_fn_mut(&mut self, item: &mut ItemFn) {
        if !of_tests(&item.attrs) && item.sig.constness.is_none() {
            visit_mut::visit_item_fn_mut(self, item);
            self.body(&item.sig, &mut item.block);
        }
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut ImplItemFn) {
        if item.sig.constness.is_none() {
            visit_mut::visit_impl_item_fn_mut(self, item);
            self.body(&item.sig, &mut item.block);
        }
    }

    fn visit_item_mod_mut(&mut self, item: &mut ItemMod) {
        if !of_tests(&item.attrs) {
            visit_mut::visit_item_mod_mut(self, item);
        }
    }

    // The compiler computes these: nothing can be asked there.
    fn visit_item_const_mut(&mut self, _: &mut ItemConst) {}
    fn visit_item_static_mut(&mut self, _: &mut ItemStatic) {}
    fn visit_impl_item_const_mut(&mut self, _: &mut ImplItemConst) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_generic_argument_mut(&mut self, _: &mut GenericArgument) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
}
